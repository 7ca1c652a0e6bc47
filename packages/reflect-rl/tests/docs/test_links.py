"""Documentation names only what exists: links, files, settings, commands; and it names every part and metric."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from reflect_locate.questions.config import TasksConfig
from reflect_report.cli.play import PlayOptions
from reflect_report.cli.prefer import parse_prefer
from reflect_report.cli.report import parse_report
from reflect_report.cli.sweep import parse_sweep
from reflect_rl import registry
from reflect_rl.cli.arguments import parse_arguments
from reflect_rl.cli.help import DESCRIPTIONS
from reflect_rl.config import FOLDERS, Frozen, parse, sections
from reflect_rl.models.catalogue import KNOWN
from reflect_rl.runs.config import RunConfig

ROOT = Path(__file__).parents[4]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CONFIGS = sorted(ROOT.glob("configs/**/*.toml"))
CORE = ROOT / "packages" / "reflect-rl" / "src" / "reflect_rl"
# A page names a file from the root, from a package (tests/...) or from a module (training/sft.py).
SOURCE_ROOTS = [
    ROOT,
    *ROOT.glob("packages/*"),
    *ROOT.glob("packages/*/src/*"),
    *ROOT.glob("packages/*/src"),
    ROOT / "benchmarks" / "src",
]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


pages = pytest.mark.parametrize("page", PAGES, ids=name_of)


def prose(page):
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def fences(page, language):
    return [body for _, kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def in_backticks(page):
    return re.findall(r"`([^`\n]+)`", prose(page))


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


def settings(model: type[Frozen], prefix: str = "") -> set[str]:
    """Dotted names of all tables and keys, for every variation."""
    found = set()
    for key, field in model.model_fields.items():
        found.add(prefix + key)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Frozen):
            folder = FOLDERS.get(kind)
            parts = [registry.find(folder, name).Config for name in registry.names(folder)] if folder else [kind]
            for part in parts:
                found |= settings(part, f"{prefix}{key}.")
    return found


SETTINGS = settings(RunConfig).union(*({place} | settings(kind, f"{place}.") for place, kind in sections().items()))
TABLES = {key.partition(".")[0] for key in SETTINGS if "." in key}


def test_a_slug_is_that_of_github():
    assert slug("`[sft.reflector]`, `[sft.policy]`") == "sftreflector-sftpolicy"
    assert slug("The two players") == "the-two-players"


@pages
def test_every_relative_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


@pages
def test_every_source_file_in_the_text_exists(page):
    for word in in_backticks(page):
        if re.fullmatch(r"[\w./]+/\w+\.py", word) and "mine" not in word:
            assert any((root / word).is_file() for root in SOURCE_ROOTS), word


@pages
def test_every_setting_in_the_text_exists(page):
    for word in in_backticks(page):
        key = word.partition(" = ")[0]
        if key.partition(".")[0] in TABLES and re.fullmatch(r"[a-z_.]+", key) and "." in key:
            assert key in SETTINGS, word


@pages
def test_every_command_would_start(page, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    for line in "".join(fences(page, "sh")).splitlines():
        program, *words = shlex.split(line.removesuffix("\\"), comments=True) or [""]
        if program == "make":
            assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        if program == "reflect-rl":
            verb, *arguments = [str(tmp_path) if word.startswith("runs/") else word for word in words]
            stages = [*DESCRIPTIONS, *registry.names("stages")]
            assert verb in stages or verb in registry.names("commands"), line
            arguments = [str(ROOT / word) if word.startswith("configs/") else word for word in arguments]
            if verb in stages:
                parse_arguments(verb, arguments)
                # Without a configuration or a run folder in front, a stage ends with an error.
                assert "--help" in arguments or (arguments and not arguments[0].startswith("--")), line
            elif verb == "model":
                assert arguments[0] in ("get", "list", "merge"), line
                assert (len(arguments) == 3) if arguments[0] == "merge" else set(arguments[1:]) <= set(KNOWN), line
            elif verb == "new":
                assert arguments[0] in ("environment", "algorithm"), line
            elif verb in ("status", "watch"):
                # Both take run folders alone, and `watch` waits until they are finished.
                assert arguments, line
                assert all(word == str(tmp_path) for word in arguments), line
            elif verb == "play":
                parse_arguments(verb, arguments, PlayOptions)
            elif verb == "report":
                assert set(parse_report(arguments)[0]) == {tmp_path}, line
            elif verb == "prefer":
                parse_prefer(arguments)
            elif verb == "sweep":
                parse_sweep(arguments, Console())
            elif verb != "bench":
                getattr(import_module(f"reflect_locate.cli.{verb}"), f"parse_{verb}")(arguments)


@pages
def test_every_toml_example_is_a_configuration(page):
    for text in fences(page, "toml"):
        # A game of the reader's own is none that can be imported here.
        parse(RunConfig, tomllib.loads(re.sub(r'"mygame:\w+"', '"corridor"', text)))


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_configuration_file_is_valid(path):
    model = TasksConfig if path.name.startswith("tasks-") else RunConfig
    parse(model, tomllib.loads(path.read_text(encoding="utf-8")))


def test_the_makefile_names_configurations_that_exist():
    named = re.findall(r"configs/\S+\.toml", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("folder", "page"),
    [
        ("algorithms", "reference/algorithms"),
        ("curricula", "reference/algorithms"),
        ("environments", "start/environments"),
    ],
)
def test_every_part_is_documented(folder, page):
    words = in_backticks(ROOT / "docs" / f"{page}.md")
    names = registry.names(folder)
    assert [name for name in names if name not in words and f"{folder}/{name}.py" not in words] == []


def test_every_metric_of_online_training_is_documented():
    families = r'"((?:rollout|policy|value|replay|reflector|time|validation)/[\w/{}]+)"'
    sources = [CORE / "training" / "online.py", *(CORE / "algorithms").glob("*.py")]
    logged = {key for path in sources for key in re.findall(families, path.read_text(encoding="utf-8"))}
    assert "rollout/success_rate" in logged
    documented = set(in_backticks(ROOT / "docs" / "reference" / "algorithms.md"))
    assert {re.sub(r"{\w+}", lambda match: match[0].strip("{}").upper(), key) for key in logged} <= documented


def test_the_readme_leads_to_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [name_of(path) for path in ROOT.glob("docs/**/*.md")]
    assert [page for page in pages if f"]({page})" not in text] == []


def test_every_page_of_the_documentation_is_in_one_of_four_groups():
    groups = {path.relative_to(ROOT / "docs").parts[0] for path in ROOT.glob("docs/**/*.md")}
    assert groups == {"start", "guides", "reference", "results"}
