"""Source archives from a package index (PEP 503), downloaded, checked, kept; never built, never run."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import re
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import IO
from urllib.parse import SplitResult, unquote, urldefrag, urljoin, urlsplit

from reflect_locate.repositories._archive import archive_stem
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_rl.errors import suggestion

INDEX = "https://pypi.org/simple"
# A server decides how much it sends, so that both its page and its file are bounded here.
PAGE_BYTES, ARCHIVE_BYTES = 50_000_000, 500_000_000
SECONDS = 60
"""Longest silence of a server."""
# The index chooses the name and it becomes a path in the cache: no slash, and no dot at the start.
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,200}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class CorpusError(SnapshotError):
    """A named corpus cannot be had."""


@dataclass(frozen=True, slots=True)
class Release:
    """Version of a project, and optionally the hash that its sdist must have."""

    project: str
    version: str
    sha256: str = ""

    def __str__(self) -> str:
        return f"sdist:{self.project}=={self.version}"


@dataclass(frozen=True, slots=True)
class _Link:
    name: str
    address: str
    sha256: str


def normalised(name: str) -> str:
    """The normal form of a project's name (PEP 503).

    >>> normalised("Ruamel.YAML__clib")
    'ruamel-yaml-clib'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(release: Release, cache: Path) -> Path:
    """The sdist of a release, from the cache or from the index that `PIP_INDEX_URL` names (otherwise PyPI).

    Raises:
        CorpusError: no network, no such project or version, no sdist of it, or another hash than expected.
    """
    folder = cache / "sdists" / release.project / release.version
    # The cache comes first, so that a corpus that was fetched once needs no network.
    if (kept := _kept(folder, release.sha256)) is not None:
        return kept
    link = _chosen(release, _links(release))
    # A disagreement is known before the download, and no byte of the wrong file is fetched.
    if release.sha256 and link.sha256 and link.sha256 != release.sha256:
        raise _wrong_hash(release, release.sha256, link.sha256)
    expected = release.sha256 or link.sha256
    # Without a hash nothing tells whether the file is the one that another run has used.
    if not expected:
        raise CorpusError(f"{release}: the index gives no sha256 for {link.name}. Add #sha256=... to the spec.")
    return _download(release, link, expected, folder)


def _kept(folder: Path, pinned: str) -> Path | None:
    """A whole file of an earlier download; its folder carries the hash that it must have."""
    for path in sorted(folder.glob("*/*")):
        expected = path.parent.name
        # Hashed again at each use: a file that was damaged or replaced in the cache is fetched anew.
        if pinned in ("", expected) and archive_stem(path.name) is not None and _hash(path) == expected:
            return path
    return None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(release: Release, link: _Link, expected: str, folder: Path) -> Path:
    """Download into a scratch file first: another process may want the same, and a broken download must not be kept."""
    # The hash names the folder, so that a later run can check the file without asking the index.
    place = folder / expected / link.name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # In the folder of the target: a rename is atomic only within one file system.
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as scratch:
            part = Path(scratch.name)
            try:
                found = _copy(release, link.address, scratch)
                if found != expected:
                    raise _wrong_hash(release, expected, found)
                scratch.flush()
                part.replace(place)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(f"{release}: cannot write to the cache {str(folder)!r}: {error}.") from None
    return place


def _copy(release: Release, address: str, file: IO[bytes]) -> str:
    """Download to an open file; returns the hash of what came."""
    digest, count = hashlib.sha256(), 0
    with _answer(release, address) as answer:
        while block := answer.read(1 << 18):
            count += len(block)
            # Counted while it arrives, because a length in the header can be wrong or missing.
            if count > ARCHIVE_BYTES:
                raise CorpusError(
                    f"{release}: the sdist is larger than {ARCHIVE_BYTES} bytes. Give its folder instead."
                )
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _links(release: Release) -> list[_Link]:
    """The files that the index lists for the project."""
    page = f"{_index()}/{release.project}/"
    with _answer(release, page) as answer:
        text = answer.read(PAGE_BYTES).decode("utf-8", "replace")
        # The address after redirects: relative links on the page are relative to it.
        base = _without_login(urlsplit(answer.geturl()))
    reader = _Page()
    reader.feed(text)
    found = []
    for href, label in reader.links:
        address, fragment = urldefrag(urljoin(base, href))
        name = label or unquote(urlsplit(address).path.rpartition("/")[2])
        # A page that came over https must not lead to a download that anybody on the way can change.
        is_fair = urlsplit(address).scheme == "https" or urlsplit(base).scheme == "http"
        if FILE_NAME.fullmatch(name) and is_fair and urlsplit(address).scheme in ("http", "https"):
            sha256 = fragment.removeprefix("sha256=").lower()
            found.append(_Link(name, address, sha256 if SHA256.fullmatch(sha256) else ""))
    return found


def _chosen(release: Release, links: list[_Link]) -> _Link:
    """The sdist of the version; `.tar.gz`, the standard form (PEP 625), before others."""
    versions: dict[str, list[_Link]] = {}
    for link in links:
        version = _version(link.name, release.project)
        if version is not None:
            versions.setdefault(version, []).append(link)
    fitting = [link for version, found in versions.items() if _key(version) == _key(release.version) for link in found]
    if not fitting:
        known = suggestion(release.version, versions) if versions else "It lists no sdist at all of this project."
        raise CorpusError(f"{release}: the index {_shown_index()} has no sdist of this version. {known}")
    return min(fitting, key=lambda link: (not link.name.endswith(".tar.gz"), link.name))


def _version(file_name: str, project: str) -> str | None:
    """The version in the name of an sdist of this project; None for wheels and other projects."""
    stem = archive_stem(file_name)
    # A wheel can lack sources, documents and tests that the sdist of the version has.
    if stem is None or file_name.endswith(".whl"):
        return None
    # A project's name may hold hyphens itself, so each hyphen is tried as the end of the name.
    cuts = (place for place, letter in enumerate(stem) if letter == "-")
    return next((stem[cut + 1 :] for cut in cuts if normalised(stem[:cut]) == project), None)


def _key(version: str) -> str:
    """Equal for versions that PEP 440 calls equal, as far as zeros at the end, a leading v and case go."""
    return re.sub(r"(\.0+)+$", "", version.lower().removeprefix("v"))


class _Page(HTMLParser):
    """Address and label of each link of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self._is_open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.links.append((href, ""))
            self._is_open = True

    def handle_data(self, data: str) -> None:
        if self._is_open:
            href, label = self.links[-1]
            # The parser may hand over one label in several pieces.
            self.links[-1] = (href, label + data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._is_open = False


@contextmanager
def _answer(release: Release, address: str) -> Iterator[http.client.HTTPResponse]:
    """An open answer of a server.

    Raises:
        CorpusError: no network, or the server refuses.
    """
    parts = urlsplit(address)
    # `urlopen` would also open `file:` and `ftp:` addresses, which an index could name.
    if parts.scheme not in ("http", "https"):
        raise CorpusError(f"PIP_INDEX_URL: {_shown_index()!r} is no address. It starts with https:// or http://.")
    request = urllib.request.Request(_without_login(parts), headers={"Accept": "text/html, */*;q=0.1"})  # noqa: S310
    if login := _login(parts):
        request.add_unredirected_header("Authorization", login)  # another host must not get it
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=_trust(parts)) as answer:  # noqa: S310
            yield answer
    except urllib.error.HTTPError as error:
        what = "has no project of this name" if error.code == 404 else f"answered {error.code} {error.reason}"
        raise CorpusError(f"{release}: the index {_shown_index()} {what}. Check the name and PIP_INDEX_URL.") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise CorpusError(
            f"{release}: cannot reach {_without_login(parts)}: {getattr(error, 'reason', error)}. "
            "Check the network and PIP_INDEX_URL, or give a folder or an archive that you have."
        ) from None


def _trust(parts: SplitResult) -> ssl.SSLContext | None:
    """The certificates that pip would trust."""
    # Behind a company's proxy only its own certificates verify, and users have named them to pip already.
    bundle = os.environ.get("PIP_CERT", "")
    if parts.scheme != "https" or not Path(bundle or ".").is_file():
        return None
    return ssl.create_default_context(cafile=bundle)


def _index() -> str:
    return (os.environ.get("PIP_INDEX_URL", "").strip() or INDEX).rstrip("/")


def _shown_index() -> str:
    """Address of the index, never with the password that it may carry."""
    return _without_login(urlsplit(_index()))


def _without_login(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _login(parts: SplitResult) -> str:
    """The header for the name and password in an address; of the index, also for files that it keeps itself."""
    index = urlsplit(_index())
    # Only the host of the index may see its password; files often lie on another host.
    same = parts.netloc == index.netloc.rpartition("@")[2]
    source = index if same else parts
    if source.username is None:
        return ""
    pair = f"{unquote(source.username)}:{unquote(source.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _wrong_hash(release: Release, expected: str, found: str) -> CorpusError:
    return CorpusError(
        f"{release}: expected sha256 {expected}, found {found}. The file is not the one that was meant: "
        "check the hash in the spec, or whether the index is to be trusted. Nothing was kept."
    )
