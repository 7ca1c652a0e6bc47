"""Settings of a task set."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from reflect_locate.questions.filters import FilterConfig
from reflect_locate.questions.sources.endpoint import EndpointConfig
from reflect_locate.repositories.gate import IngestRules
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.text_rules import TextRules
from reflect_rl.config import Frozen

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


class TasksConfig(Frozen):
    """Questions about trees of files, and how they are divided.

    A corpus is a folder, an archive, a git revision (`PATH@REVISION`), `stdlib` (of the running Python),
    `installed:NAME` (an installed distribution) or `sdist:NAME==VERSION` (a source distribution on PyPI).
    """

    output_dir: Path = Path("runs/tasks")
    """Folder for the task set; one that is there already is replaced."""
    corpora: tuple[str, ...] = ()
    """Trees of files, divided by `fractions`: whole projects, or of a single project its files or its history."""
    train: tuple[str, ...] = ()
    """Corpora whose questions are for training."""
    validation: tuple[str, ...] = ()
    """Corpora whose questions are for validation."""
    test: tuple[str, ...] = ()
    """Corpora whose questions are for the test."""
    sources: tuple[Literal["docstrings", "documents", "tables", "history"], ...] = Field(
        ("docstrings", "documents", "tables", "history"), min_length=1
    )
    """Sources of questions: docstrings of Python, the beginnings of documents, columns of tables, and git commits, each
    asked about a tree before it."""
    seed: int = Field(0, ge=0)
    """Root of everything that is drawn."""
    fractions: tuple[float, float, float] = (0.7, 0.1, 0.2)
    """Shares of training, validation and test, where no lists divide the corpora."""
    divide: Literal["auto", "files", "time"] = "auto"
    """Division of a single project: by its files, or by time (`auto`: by time where its history is long enough).
    By time, the test asks about the newest commits, and the tree is the one before them. By files, none is asked."""
    max_questions_per_repository: int | None = Field(None, ge=1)
    """Most questions of one project, drawn by the seed (unset: all)."""
    cache: Path = Path("~/.cache/reflect-rl/corpora")
    """Folder for downloads."""
    endpoint: EndpointConfig = Field(default_factory=EndpointConfig)
    """A server that writes questions too; without `base_url` nobody is asked, and nothing leaves the machine."""
    filters: FilterConfig = Field(default_factory=FilterConfig)
    """Rules by which candidates become questions."""
    files: Literal["paper", "locate"] = "paper"
    """Kinds of files: those of the paper's environment (`ingest.suffixes`), or every text that `locate` reads, in any
    programming language, for questions to train and to measure a reader with."""
    ingest: IngestConfig = Field(default_factory=IngestConfig)
    """Files of a tree that are read."""

    @property
    def rules(self) -> IngestRules:
        """Rules by which files of a tree are read."""
        if self.files == "paper":
            return self.ingest
        return TextRules(**self.ingest.model_dump(exclude={"suffixes"}))

    @model_validator(mode="after")
    def _consistent(self) -> TasksConfig:
        listed = [*self.train, *self.validation, *self.test]
        if self.corpora and listed:
            raise ValueError("name corpora either in corpora, or in the lists train, validation and test, not in both")
        named = [*self.corpora, *listed]
        if repeated := sorted({spec for spec in named if named.count(spec) > 1}):
            raise ValueError(f"the corpus {repeated[0]!r} is named twice")
        if self.files == "locate" and self.ingest.suffixes != IngestRules().suffixes:
            raise ValueError('files = "locate" reads texts of all endings: leave out ingest.suffixes')
        if self.divide == "files" and self.sources == ("history",):
            raise ValueError('divide = "files" asks no commits, so another of the sources is needed')
        if min(self.fractions) < 0 or abs(sum(self.fractions) - 1) > 1e-6:
            raise ValueError(f"fractions: three shares that add up to 1, got {list(self.fractions)}")
        return self
