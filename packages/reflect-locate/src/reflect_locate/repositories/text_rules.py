"""Files that `locate` and `serve` read: every text but data, generated files and media.

The games and task sets keep the paper's list of endings (`IngestRules`), so that their questions stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from reflect_locate.repositories.gate import IngestRules, suffix_of
from reflect_locate.repositories.ignore import SECRETS

DATA = (
    ".jsonl", ".ndjson", ".log", ".geojson", ".parquet", ".arrow", ".feather", ".npy", ".npz",
    ".pkl", ".pickle", ".db", ".sqlite", ".sqlite3", ".h5", ".hdf5", ".onnx", ".pt", ".pth", ".ckpt", ".safetensors",
    ".bin", ".dat", ".mo",
)  # fmt: skip
GENERATED = (
    ".lock", ".lockb", ".map", ".min.js", ".min.css", ".min.mjs", ".bundle.js", ".snap", ".pyc", ".pyo", ".o", ".a",
    ".so", ".dylib", ".dll", ".exe", ".obj", ".lib", ".class", ".jar", ".war", ".wasm", ".whl",
    "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "packages.lock.json", "go.sum", "go.work.sum",
)  # fmt: skip
"""Endings, and whole names of lists that a package manager writes."""
MEDIA = (
    ".svg", ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".ico", ".webp", ".tif", ".tiff", ".eps", ".psd", ".mp3", ".mp4",
    ".wav", ".ogg", ".flac", ".avi", ".mov", ".webm", ".ttf", ".otf", ".woff", ".woff2", ".eot", ".pdf", ".doc",
    ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z",
    ".rar", ".tar",
)  # fmt: skip
"""Most are no text; a name tells it without reading them."""
SKIPPED = (*DATA, *GENERATED, *MEDIA)
SOURCE = (
    ".py", ".pyi", ".pyx", ".c", ".cpp", ".cxx", ".cc", ".h", ".hh", ".hpp", ".hxx", ".cs", ".java", ".go", ".js",
    ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".rs", ".rb", ".php", ".kt", ".kts", ".swift", ".scala",
    ".dart", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".lua", ".pl", ".r", ".jl", ".m", ".mm", ".zig", ".vue",
    ".svelte",
)  # fmt: skip
"""Endings of source code."""
BUILDS = frozenset((
    ".azure-pipelines", ".buildkite", ".ci", ".circleci", ".devcontainer", ".github", ".gitlab", ".gitlab-ci.yml",
    ".pre-commit-config.yaml", ".readthedocs.yaml", ".readthedocs.yml", ".travis.yml",
))  # fmt: skip
"""Hidden files and folders that say how a project is checked and built."""
SCHEMAS = (".proto", ".thrift", ".graphql")
"""Endings of descriptions of messages, which hold no values."""
NAMED_SECRETS = (
    "secret", "client_secret", "credential", "passwd", "password", "kubeconfig", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ed25519",
)  # fmt: skip
"""Words that a source about secrets is named after, and that say little about its content."""
NAMED_FOLDERS = ("credentials", "kubeconfig")
"""The same for folders: packages may have such names. In a folder `secrets` sources may well hold some."""


@dataclass(frozen=True)
class TextRules(IngestRules):
    """Files that `locate` and `serve` read."""

    deny: tuple[str, ...] = tuple(name for name in SECRETS if name != "*.asc")
    """Names that may hold secrets. AsciiDoc has the ending of armoured keys, which are known by their content."""
    skipped: tuple[str, ...] = SKIPPED
    """Endings of names that are not read."""

    @property
    def takes_one_file(self) -> bool:
        """Tell whether a single text is a source of its own."""
        return True

    def reads_hidden(self, name: str) -> bool:
        """Tell whether a file or folder with this name, which starts with a dot, is read."""
        return self.hidden or name.lower() in BUILDS

    def offers(self, name: str) -> bool:
        """Tell whether a file of this name may be read, as far as its ending goes."""
        return not name.lower().endswith(self.skipped)

    def ending(self, name: str) -> str:
        """The ending for which a file of this name is not read."""
        return next((ending for ending in self.skipped if name.lower().endswith(ending)), suffix_of(name))

    def is_source(self, name: str) -> bool:
        """Tell whether a name that is denied is that of a source about secrets, such as `secrets.py`."""
        lower = name.lower()
        return lower.endswith((*SOURCE, *SCHEMAS)) and lower.startswith(NAMED_SECRETS)

    def reads_below(self, folder: str, name: str = "") -> bool:
        """Tell whether a folder whose name is denied is entered, and a file of this name is read in it."""
        return folder.lower() in NAMED_FOLDERS and (not name or name.lower().endswith((*SOURCE, *SCHEMAS)))

    def told_endings(self) -> str:
        """The files that are read, in a sentence."""
        return "Every text is read but data, generated files and media, such as .jsonl, .lock and .svg."


ALL_TEXT = TextRules()
