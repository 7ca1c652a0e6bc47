r"""Right files first by `locate`, ripgrep, BM25 and a hybrid with embeddings, on the same questions.

    pip install bm25s semble wordllama    # in a scratch environment with this package; ripgrep (`rg`) is on the PATH
    python scripts/compare_rankers.py ~/src/flask ~/src/httpx --questions 50
    python scripts/compare_rankers.py --tasks runs/tasks-installed --questions 600

Of repositories, questions are the subjects of the newest commits of each git repository, asked about the tree before
them (the later commits of `reflect-rl adapt`); any file that the commit changed is right. Of a task set, they are
sentences of its test projects, each asked about its project with the sentence masked; the file that holds it is right.
Such a sentence stands for a question in other words, so `locate` does not look for it word by word in other files.
All rankers see the same files. What is not installed is left out, and a line says so. Times are CPU time, children
included: of the first question with reading and indexing the files, and the median of the others with the index in
memory (ripgrep reads the files each time). In a task set each question is a first one, since the masked file is
another.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from reflect_locate.adapt import eras_of, fitted_weights
from reflect_locate.adapted_ranking import AdaptedRanking
from reflect_locate.places import first_place, mean_reciprocal_rank, ndcg
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.ranking import find
from reflect_locate.repositories.ingest import open_repository
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.repositories.tree import Spans, Tree
from reflect_locate.repositories.word_store import WordStore
from reflect_locate.repositories.words import STOP_WORDS
from reflect_rl.errors import UserError
from reflect_rl.evaluation.compare import paired_difference
from reflect_rl.evaluation.evaluate import wilson_interval
from reflect_rl.types import stream

TOP = 10
NEAR = 5
LOCATE = "locate"
BASELINE = "BM25 over contents (bm25s)"
CHUNKS = 60
"""Parts of files that the hybrid is asked for, so that ten different files are among them."""
WORD = re.compile(r"[^\W_]{2,}")

Ask = Callable[[str], list[str]]
"""Question -> files, best first."""
Open = Callable[[Path], Ask]
"""Folder -> how it is asked; reads and indexes it."""


class MissingError(Exception):
    """A ranker is not installed."""


@dataclass
class Row:
    """Results of a ranker."""

    places: list[int] = field(default_factory=list)
    """Place of the first right file of each question; 0 = not among the first ten."""
    gains: list[float] = field(default_factory=list)
    """NDCG at ten of each question."""
    cold: list[float] = field(default_factory=list)
    """CPU seconds of the first question of each repository."""
    warm: list[float] = field(default_factory=list)

    def add(self, files: Sequence[str], targets: Sequence[str]) -> None:
        """Count an answer."""
        is_right = [path in targets for path in files[:TOP]]
        self.places.append(first_place(is_right))
        self.gains.append(ndcg(is_right, TOP, len(targets)))


def main(arguments: Sequence[str]) -> int:
    """Ask all rankers, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="*", type=Path, help="git checkouts or bare repositories")
    parser.add_argument("--tasks", type=Path, help="a folder of `reflect-rl tasks` instead")
    parser.add_argument("--questions", type=int, default=50, help="questions about each repository, or of the task set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embedding", default="wordllama", help="of semble: wordllama, or a Model2Vec folder or name")
    options = parser.parse_args(arguments)
    if bool(options.repositories) == (options.tasks is not None):
        parser.error("name repositories or --tasks FOLDER, one of the two.")
    if options.questions < 1:
        parser.error(f"--questions {options.questions} asks nothing. Give 1 or more.")
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as scratch:
        rankers = available(options.embedding, Path(scratch))
        if options.tasks is not None:
            ask_sentences(rows, rankers, TaskSet.load(options.tasks), options.questions, options.seed)
        else:
            ask_commits(rows, rankers, options)
    if not any(row.places for row in rows.values()):
        parser.error("there is no question to ask: no later commit, or no test sentence that can be masked.")
    show(rows)
    return 0


def ask_commits(rows: dict[str, Row], rankers: Mapping[str, Open], options: argparse.Namespace) -> None:
    """Ask all rankers, and each repository's own history, by the subjects of its newest commits."""
    for place in options.repositories:
        try:
            fitted, era = eras_of(place.resolve())
        except UserError as error:
            print(f"left out {place}: {error}", file=sys.stderr)
            continue
        order = stream(options.seed, "compare rankers", place.resolve().name).permutation(len(era.commits))
        asked = [era.commits[index] for index in sorted(order[: options.questions].tolist())]
        # Adapted to this repository by commits before those that are asked about.
        adapted = AdaptedRanking(repository="", commit="", weights=fitted_weights(fitted), said=era.said)
        own: dict[str, Open] = {"locate --adapted": partial(located, adapted=adapted)}
        with tempfile.TemporaryDirectory() as folder:
            write(era.tree, era.tree.paths, Path(folder))
            for name, opened in (*rankers.items(), *own.items()):
                ask_all(rows.setdefault(name, Row()), opened, Path(folder), asked)
        print(f"{place}: {len(era.tree.paths)} files, {len(asked)} questions", file=sys.stderr, flush=True)


def ask_sentences(rows: dict[str, Row], rankers: Mapping[str, Open], tasks: TaskSet, questions: int, seed: int) -> None:
    """Ask all rankers by sentences of test projects, each masked where it stands."""
    drawn = sorted(tasks.draw("test", questions, seed), key=lambda question: question.snapshot)
    for name, asked in groupby(drawn, key=lambda question: question.snapshot):
        snapshot = tasks.snapshot(name)
        whole = Tree(snapshot, "", None, {})
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write(whole, whole.paths, folder)
            for question in asked:
                write(Tree(snapshot, "", None, question.spans), question.targets, folder)
                of_masked = {**rankers, LOCATE: partial(located, masks=question.spans)}
                for ranker, opened in of_masked.items():
                    ask_all(rows.setdefault(ranker, Row()), opened, folder, [question])
                write(whole, question.targets, folder)
        print(f"{name}: {len(whole.paths)} files", file=sys.stderr, flush=True)


def write(tree: Tree, paths: Iterable[str], folder: Path) -> None:
    """Write files of a tree into a folder."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(tree.text(path), encoding="utf-8", errors="replace")


def available(embedding: str, scratch: Path) -> dict[str, Open]:
    """The rankers that are installed."""
    makers: dict[str, Callable[[], Open]] = {
        "ripgrep, words counted": ripgrep,
        BASELINE: library_bm25,
        f"semble with {embedding}": lambda: hybrid(embedding, scratch),
        LOCATE: lambda: located,
    }
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except (MissingError, ImportError) as error:
            print(f"left out {name}: {error}", file=sys.stderr)
    return found


def ask_all(row: Row, opened: Open, folder: Path, questions: Sequence[Question]) -> None:
    """Ask a ranker about one repository."""
    started = cpu()
    ask = opened(folder)
    for number, question in enumerate(questions):
        row.add(ask(question.text), question.targets)
        # The first question of a repository pays for reading and indexing it.
        (row.warm if number else row.cold).append(cpu() - started)
        started = cpu()


def cpu() -> float:
    """CPU seconds of this process and of the programs that it has run."""
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def ripgrep() -> Open:
    """Files by the number of different words of the question that stand in them, then by the number of matches."""
    program = shutil.which("rg")
    if program is None:
        raise MissingError("there is no rg on the PATH (Debian: ripgrep)")

    def opened(folder: Path) -> Ask:
        def ask(question: str) -> list[str]:
            asked = {word.lower() for word in WORD.findall(question)} - STOP_WORDS
            words = [part for word in sorted(asked) for part in ("-e", word)]
            if not words:
                return []
            # Sorted by path, since threads would give ties in any order. No configuration of the user's takes part.
            flags = ["--no-config", "--sort", "path", "-o", "-i", "-F", "--no-heading", "-N", "-H", "-0"]
            said = subprocess.run([program, *flags, *words, "."], cwd=folder, capture_output=True, check=False).stdout
            held: dict[str, list[str]] = {}
            for line in said.decode("utf-8", "replace").splitlines():
                path, _, word = line.partition("\0")
                held.setdefault(path.removeprefix("./"), []).append(word.lower())
            return sorted(held, key=lambda path: (-len(set(held[path])), -len(held[path]), path))

        return ask

    return opened


def library_bm25() -> Open:
    """BM25 over the contents, by the library bm25s as it comes."""
    bm25s: Any = import_module("bm25s")

    def opened(folder: Path) -> Ask:
        texts = {path: (folder / path).read_text(encoding="utf-8") for path in files_of(folder)}
        paths, index = list(texts), bm25s.BM25()
        index.index(bm25s.tokenize(list(texts.values()), show_progress=False), show_progress=False)

        def ask(question: str) -> list[str]:
            tokens = bm25s.tokenize([question], show_progress=False)
            numbers, _ = index.retrieve(tokens, k=min(TOP, len(paths)), show_progress=False)
            return [paths[number] for number in numbers[0].tolist()]

        return ask

    return opened


def files_of(folder: Path) -> list[str]:
    """Paths of all files, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def hybrid(embedding: str, scratch: Path) -> Open:
    """BM25, static embeddings and rules for code, by semble, with all kinds of files."""
    semble: Any = import_module("semble")
    model = str(of_wordllama(scratch / "wordllama")) if embedding == "wordllama" else embedding

    def opened(folder: Path) -> Ask:
        index = semble.SembleIndex.from_path(folder, content=list(semble.ContentType), model_path=model)

        def ask(question: str) -> list[str]:
            found = (Path(result.chunk.file_path) for result in index.search(question, top_k=CHUNKS))
            return list(dict.fromkeys((p.relative_to(folder) if p.is_absolute() else p).as_posix() for p in found))

        return ask

    return opened


def of_wordllama(folder: Path) -> Path:
    """The embedding of the package wordllama in the form of Model2Vec: its weights come with the package."""
    inside = Path(str(import_module("wordllama").__file__)).parent
    tokenizers: Any = import_module("tokenizers")
    weights: Any = import_module("safetensors.numpy").load_file(inside / "weights" / "l2_supercat_256.safetensors")
    tokenizer = tokenizers.Tokenizer.from_file(str(inside / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    vectors = weights["embedding.weight"].astype("float32")
    import_module("model2vec").StaticModel(vectors, tokenizer, normalize=True).save_pretrained(folder)
    return folder


def located(folder: Path, adapted: AdaptedRanking | None = None, masks: Mapping[str, Spans] | None = None) -> Ask:
    """The index of `locate`, as it comes or adapted to the repository."""
    # Files that were written there have passed the rules of snapshots already.
    tree = Tree(open_repository(folder, replace(ALL_TEXT, hidden=True)).snapshot, masks=masks)
    index = StoredIndex(tree, WordStore())
    return lambda question: [entry.path for entry in find(tree, question, index, adapted=adapted).files]


def show(rows: Mapping[str, Row]) -> None:
    """Print the table, and each ranker beside BM25 on the same questions."""
    print("| ranker | first | among five | MRR | NDCG@10 | first call, ms | later calls, ms |")
    print("|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        count, first = len(row.places), row.places.count(1)
        low, high = wilson_interval(first, count)
        share = f"{first} of {count} = {100 * first / count:.1f} [{100 * low:.0f}, {100 * high:.0f}]"
        near = sum(1 <= place <= NEAR for place in row.places)
        reciprocal = mean_reciprocal_rank(row.places)
        times = " | ".join(
            f"{1000 * statistics.median(seconds):.0f}" if seconds else "" for seconds in (row.cold, row.warm)
        )
        print(f"| {name} | {share} | {near} | {reciprocal:.3f} | {statistics.fmean(row.gains):.3f} | {times} |")
    if BASELINE in rows:
        base = [place == 1 for place in rows[BASELINE].places]
        print(f"\n| right file first, points above {BASELINE} | |\n|---|---|")
        for name, row in rows.items():
            if name != BASELINE:
                found = paired_difference([place == 1 for place in row.places], base)
                print(f"| {name} | {100 * found.difference:+.1f} [{100 * found.lo:.1f}, {100 * found.hi:.1f}] |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
