"""Hostile repositories, archives, model folders, MCP messages and checkpoints, drawn at random."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bombs import LIMITS, bomb
from table import Outcome, attempt

from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_locate.serve import readable
from reflect_rl.errors import ReflectRLError
from reflect_rl.models.source import base_model, weight_files
from reflect_rl.registry import refuse_foreign

PRIVATE = "a private word"
PERSON = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **PERSON}
    subprocess.run(["git", "-c", "init.defaultBranch=main", *words], cwd=folder, env=environment, check=True)


def repository(folder: Path, text: str) -> Path:
    """A repository with one file."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.md").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)
    return folder


def hostile_git(place: Path, draw: random.Random) -> str:
    """Settings that start programs, and a `.git` that leads out."""
    opened, private = repository(place / "opened", "public"), repository(place / "private", PRIVATE)
    program = place / "program"
    program.write_text(f"#!/bin/sh\ntouch {place}/EVIDENCE\n")
    program.chmod(0o755)
    keys = ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "filter.x.process", "filter.x.clean")
    keys += ("diff.x.textconv", "credential.helper", "core.alternateRefsCommand", "include.path", "core.worktree")
    with (opened / ".git" / "config").open("a") as settings:
        for section, _, name in (key.rpartition(".") for key in draw.sample(keys, 5)):
            first, _, second = section.partition(".")
            title = f'{first} "{second}"' if second else first
            settings.write(f"[{title}]\n\t{name} = {program}\n")
    (opened / ".git" / "info").mkdir(exist_ok=True)
    (opened / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    objects = opened / ".git" / "objects"
    (objects / "info").mkdir(exist_ok=True)
    leads: list[Callable[[], object]] = [
        lambda: None,
        lambda: (objects / "info" / "alternates").write_text(f"{private}/.git/objects\n"),
        lambda: (opened / ".git" / "commondir").write_text(f"{private}/.git\n"),
        lambda: (opened / ".git").rename(place / "old") and (opened / ".git").symlink_to(private / ".git"),
        lambda: (opened / ".git").rename(place / "old") and (opened / ".git").write_text(f"gitdir: {private}/.git"),
        lambda: os.mkfifo(opened / ".git" / "refs" / "heads" / "pipe"),
        lambda: (opened / ".git" / "HEAD").write_bytes(draw.randbytes(50)),
    ]
    draw.choice(leads)()
    return look(f"{opened}@HEAD", place)


def look(source: str, place: Path) -> str:
    try:
        found = ingest(source, LIMITS)
    except SnapshotError as error:
        return "escaped" if PRIVATE in str(error) or (place / "EVIDENCE").exists() else "refused"
    text = "".join(found.files.values()) + "".join(found.files)
    return "escaped" if PRIVATE in text or ".." in text or (place / "EVIDENCE").exists() else "held"


NAMES = (
    "../../a.md",
    "/etc/a.md",
    "a/../../b.md",
    "a\n.md",
    "\x1b[2J.md",
    "ok.md",
    "a" * 5000 + ".md",
    ".env",
    "x\\..\\y.md",
)


def hostile_tree(place: Path, draw: random.Random) -> str:
    """Links, pipes and odd names on the disk."""
    (place / "private.md").write_text(PRIVATE)
    root = place / "opened"
    (root / "sub").mkdir(parents=True)
    (root / "ok.md").write_text("public")
    for number in range(6):
        name = root / draw.choice(("", "sub")) / f"{number}.md"
        draw.choice(
            [
                lambda name=name: name.symlink_to(place / "private.md"),
                lambda name=name: name.symlink_to(place, target_is_directory=True),
                lambda name=name: os.mkfifo(name),
                lambda name=name: name.write_bytes(draw.randbytes(100)),
                lambda name=name: name.mkdir(),
            ]
        )()
    return look(str(root), place)


def hostile_archive(place: Path, draw: random.Random) -> str:
    """Names that lead out, links, and damage to any byte."""
    (place / "private.md").write_text(PRIVATE)
    buffer = io.BytesIO()
    if draw.random() < 0.5:
        with tarfile.open(fileobj=buffer, mode=draw.choice(("w", "w:gz", "w:xz", "w:bz2"))) as tar:
            for name in draw.sample(NAMES, 4):
                info = tarfile.TarInfo(name)
                info.type = draw.choice((tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE))
                info.linkname, info.size = str(place / "private.md"), 5 if info.type == tarfile.REGTYPE else 0
                tar.addfile(info, io.BytesIO(b"12345"))
    else:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in draw.sample(NAMES, 4):
                archive.writestr(name, "12345" * draw.choice((1, 10_000)))
    data = bytearray(buffer.getvalue())
    for _ in range(draw.choice((0, 1, 5))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    (place / "a.tar").write_bytes(data)
    return look(str(place / "a.tar"), place)


def hostile_model(place: Path, draw: random.Random) -> str:
    """Indexes and adapters that name pickles, other folders or nonsense."""
    (place / "ok.safetensors").write_bytes(b"")
    values = (
        "ok.safetensors",
        "pytorch_model.bin",
        "../x.safetensors",
        "/x.safetensors",
        None,
        3,
        [],
        {},
        "a/b.safetensors",
        "x.pkl",
    )
    text = draw.choice(
        [
            json.dumps({"weight_map": {"a": draw.choice(values)}}),
            json.dumps(draw.choice(values)),
            '{"weight_map"',
            "[" * 50_000,
        ]
    )
    (place / "model.safetensors.index.json").write_text(text)
    if is_adapter := draw.random() < 0.5:
        base = draw.choice(("../nowhere", "owner/name", "", None, 3, str(place)))
        (place / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    try:
        found = [base_model(place)] if is_adapter else weight_files(place)
    except ReflectRLError:
        return "refused"
    return "held" if found == ["ok.safetensors"] else "escaped"


def hostile_run(place: Path, draw: random.Random) -> str:
    """Names of modules in a run folder."""
    name = draw.choice(("dangerous_taxi", "antigravity:x", "left_here:Game", "os:system", "this:s", "subprocess:Popen"))
    key = draw.choice(("environment", "rlft"))
    values = draw.choice([{key: {"name": name}}, {"rlft": {"algorithm": {"name": name}}}, {"methods": [name]}])
    try:
        refuse_foreign(values, place / "config.json")
    except ReflectRLError:
        return "refused"
    return "held" if name == "dangerous_taxi" else "escaped"


def hostile_snapshot(place: Path, draw: random.Random) -> str:
    """Damage to a saved snapshot, which is read in full or refused."""
    path = place / "a.json.gz"
    Snapshot("s", {"a.md": "text " * draw.randrange(1, 300)}).save(path)
    before = Snapshot.load(path).identity
    data = bytearray(path.read_bytes())
    kind = draw.randrange(3)
    if kind == 0:
        data = data[: draw.randrange(len(data))]
    elif kind == 1:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    else:
        data = bytearray(gzip.compress(draw.choice((b"null", b"[]", b"{}", b"[" * 50_000, b'{"name": 1}'))))
    path.write_bytes(data)
    try:
        return "exact" if Snapshot.load(path).identity == before else "silent"
    except SnapshotError:
        return "refused"


def hostile_message(place: Path, draw: random.Random) -> str:
    """Text of an MCP message with any escapes."""
    parts = ("\\ud800", "\\udc00", "\\ud83d\\ude00", "\\\\", "\\n", "a", "\\u0041", "\\\\ud800")
    text = '"' + "".join(draw.choice(parts) for _ in range(20)) + '"'
    json.loads(readable(text)).encode()
    return "held"


KINDS: dict[str, Callable[[Path, random.Random], str]] = {
    "git repository": hostile_git,
    "tree": hostile_tree,
    "archive": hostile_archive,
    "model folder": hostile_model,
    "run folder": hostile_run,
    "snapshot file": hostile_snapshot,
    "MCP message": hostile_message,
    "bomb": bomb,
}


def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Try the cases of these numbers, the kinds in turn."""
    for number in numbers:
        kind = list(KINDS)[number % len(KINDS)]
        case = place / str(number)
        case.mkdir(parents=True)
        yield attempt(
            kind,
            number,
            f"seed {seed}, case {number}",
            lambda kind=kind, number=number, case=case: KINDS[kind](case, random.Random(f"{seed} {number}")),
        )
        shutil.rmtree(case)
