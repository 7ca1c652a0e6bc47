"""Corpora by name: the standard library, installed packages, source archives of PyPI, or any path.

stdlib                      of the Python that runs
installed:NAME              the files of an installed distribution
sdist:NAME==VERSION         from the package index; `#sha256=...` at the end pins it
PATH                        a folder, an archive, or FOLDER@REVISION
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sysconfig
import tomllib
from dataclasses import replace
from pathlib import Path

from reflect_locate.repositories._archive import archive_stem, read_archive
from reflect_locate.repositories._sdist import SHA256, CorpusError, Release, fetch, normalised
from reflect_locate.repositories.directory import read_directory, read_listed, read_one
from reflect_locate.repositories.gate import Gate, IngestRules
from reflect_locate.repositories.ingest import ingest, snapshot_of, split_revision
from reflect_locate.repositories.snapshot import Snapshot

STDLIB, INSTALLED, SDIST = "stdlib", "installed:", "sdist:"
STDLIB_PROJECT = "cpython"
"""The standard library and a clone of Python's repository are one project."""
STDLIB_EXCLUDE = (
    "site-packages/", "dist-packages/", "lib-dynload/", "__pycache__/",
    "test/", "tests/", "idle_test/", "/__phello__/",
    "/config-*/", "/_sysconfigdata*", "/_sysconfig_vars*", "/build-details.json", "/LICENSE.txt",
    "/sitecustomize.py", "/usercustomize.py",
)  # fmt: skip
"""Tests, other people's packages, and what differs from one installation to the next."""

NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
RELEASE = re.compile(rf"({NAME})==([A-Za-z0-9][A-Za-z0-9.!+_-]*)(?:#sha256=([0-9A-Fa-f]+))?")
VERSION_END = re.compile(r"-(?:v?\d.*|main|master|trunk|develop|HEAD)$")
"""The end of the name of an archive, or of the folder in it: a version or a branch."""
METADATA = re.compile(r"^[^/]*\.(?:dist|egg)-info/|^\.\./|^/")
"""Entries of a distribution's list that only describe it, and files outside its folder (commands, manuals)."""
DEFAULT = IngestRules()
# The file comes from a stranger's folder and is parsed before any limit of the gate applies.
PROJECT_BYTES = 200_000
"""Largest `pyproject.toml` that is looked into."""


def corpus(spec: str, config: IngestRules = DEFAULT, cache: Path | None = None) -> Snapshot:
    """The snapshot of a corpus.

    Published files hold no secrets of this user, so `config.deny` is not applied to `stdlib` and `sdist:`.

    Args:
        spec: `stdlib`, `installed:NAME`, `sdist:NAME==VERSION` (optionally `#sha256=...`), or a path as for `ingest`.
        config: which files are taken, and limits.
        cache: where downloads are kept; by default `.cache/reflect-rl` in the home folder.

    Raises:
        CorpusError: no such distribution or version, no network, or a wrong hash.
        SnapshotError: there is no such path, or nothing in it can be read.
    """
    if spec == STDLIB:
        return _stdlib(config)
    if spec.startswith(INSTALLED):
        return _installed(spec, config)
    if spec.startswith(SDIST):
        release = _release(spec)
        path = fetch(release, cache or Path.home() / ".cache" / "reflect-rl")
        # Names on the deny list, such as `secrets.py` of the standard library, are ordinary code in published files.
        gate = Gate(spec, config, is_public=True)
        read_archive(path, gate)
        return snapshot_of(gate, f"{release.project}-{release.version}")
    return ingest(spec, config)


def project_name(spec: str) -> str:
    """The project that a corpus belongs to: the group that a split must not tear apart.

    A clone, an unpacked archive, an sdist and an installed package of one project get one name: that in
    `pyproject.toml` where there is one, otherwise the name of the folder or archive without version or branch.

    >>> project_name("stdlib"), project_name("installed:Flask_Login"), project_name("sdist:Flask==3.1.0")
    ('cpython', 'flask-login', 'flask')
    >>> project_name("downloads/requests-2.32.3.tar.gz"), project_name("downloads/click-main.zip")
    ('requests', 'click')

    Raises:
        CorpusError: the spec is malformed.
    """
    if spec == STDLIB:
        return STDLIB_PROJECT
    if spec.startswith(INSTALLED):
        return normalised(_distribution_name(spec))
    if spec.startswith(SDIST):
        return _release(spec).project
    path, _ = split_revision(spec)
    path = path.resolve()
    # An archive would have to be opened for its declared name, so its file name must do.
    declared = _declared_name(path) if path.is_dir() else ""
    stem = path.name if path.is_dir() else archive_stem(path.name) or path.name
    return normalised(declared or VERSION_END.sub("", stem.removesuffix(".git")) or stem) or "root"


def _stdlib(config: IngestRules) -> Snapshot:
    # The user's rules come first, because a later rule wins and the tests must stay out.
    exclude = (*config.exclude, *STDLIB_EXCLUDE)
    gate = Gate(STDLIB, replace(config, exclude=exclude), is_public=True)
    read_directory(Path(sysconfig.get_path("stdlib")), gate)
    return snapshot_of(gate, f"stdlib-{platform.python_version()}")


def _installed(spec: str, config: IngestRules) -> Snapshot:
    """The files that the distribution's own list names, inside its folder; commands elsewhere are not among them."""
    name = _distribution_name(spec)
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise CorpusError(
            f"{spec}: no distribution {name!r} is installed. `pip list` shows the names, or use sdist:{name}==VERSION."
        ) from None
    if distribution.files is None:
        raise CorpusError(f"{spec}: the installation has no list of its files. Give its folder instead.")
    listed = [file.as_posix() for file in distribution.files]
    # An installed package may be a private one of this user, so the deny list applies.
    gate = Gate(spec, config)
    # The list is written by the package: entries with `..` or an absolute path would lead out of its folder.
    read_listed(Path(str(distribution.locate_file(""))), [path for path in listed if not METADATA.search(path)], gate)
    return snapshot_of(gate, f"{normalised(name)}-{distribution.version}")


def _distribution_name(spec: str) -> str:
    name = spec.removeprefix(INSTALLED)
    if not re.fullmatch(NAME, name):
        raise CorpusError(f"{spec!r}: {name!r} is no name of a distribution. Example: installed:numpy.")
    return name


def _release(spec: str) -> Release:
    found = RELEASE.fullmatch(spec.removeprefix(SDIST))
    sha256 = (found[3] or "").lower() if found else ""
    if not found or (sha256 and not SHA256.fullmatch(sha256)):
        raise CorpusError(f"{spec!r} is no release. Example: sdist:flask==3.1.0, or with #sha256= and 64 digits.")
    return Release(normalised(found[1]), found[2], sha256)


def _declared_name(folder: Path) -> str:
    """The name in `pyproject.toml`, or ""."""
    # The walk's own reader, so that `pyproject.toml` as a link or FIFO neither leads out nor blocks.
    data = read_one(folder, "pyproject.toml", PROJECT_BYTES)
    try:
        project = tomllib.loads(data.decode("utf-8")).get("project", {}) if isinstance(data, bytes) else {}
    # Deeply nested brackets in a hostile file make the parser of TOML raise RecursionError.
    except (ValueError, RecursionError):  # no UTF-8, no TOML
        return ""
    name = project.get("name") if isinstance(project, dict) else None
    # Only a well-formed name counts: it groups projects and is printed.
    return name if isinstance(name, str) and re.fullmatch(NAME, name) else ""
