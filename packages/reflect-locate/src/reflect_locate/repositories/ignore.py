"""Files that are not read because of their names: the rules of `.gitignore` files, and names that usually hold secrets.

Rules as in gitignore(5): the nearest `.gitignore` that says something about a path decides, and nothing below an
ignored folder is read. Rules outside the tree (`.git/info/exclude`, a user's own, folders above) are not looked at.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Iterable

from pathspec import GitIgnoreSpec

SECRETS = (
    ".env", ".env.*", "*.env", ".envrc",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.pkcs12", "*.p8", "*.jks", "*.keystore", "*.ppk", "*.gpg", "*.asc",
    "*.kdb", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg",
    ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".vault_pass*",
    ".aws", ".azure", ".docker", ".gcloud", ".kube", "kubeconfig*",
    "credentials", "credentials.*", "credentials-*", "credentials_*",
    "client_secret*", "service_account*.json", "service-account*.json",
    "secret.*", "secrets.*", "secrets", ".secrets", "passwords.*", "passwd.*", "token.json", "tokens.json",
    "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.*",
    "env.local", "env.dev", "env.development", "env.prod", "env.production", "env.staging", "env.test",
    "vault.yml", "vault.yaml", "vault.json", "vault_pass*", "nuget.config", "local.settings.json",
    "appsettings.local.json", "appsettings.prod*.json", "appsettings.staging.json", "pgpass.conf", "rclone.conf",
    ".dockercfg", ".s3cfg", ".boto", "*firebase-adminsdk*.json",
)  # fmt: skip
"""Names of files and folders that are not read by default: shell patterns, compared without regard to case. Data that
are named after secrets, such as `prod-api-keys.json`, are known by `secret_names`."""

# Three stars in one name match in hundredths of a second; forty on a name of 250 letters would take centuries.
RUNS, RUNS_PER_NAME = 6, 3
"""Most stars of a rule. Matching is polynomial in their number, and a rule may come from somebody hostile."""
RULES = 5_000
"""Most rules of one file."""


class IgnoreRules:
    """The rules that hold in one folder: those of its own `.gitignore`, then those of the folders above it.

    Args:
        folder: where the file lies, "" or "a/b/".
        lines: of the file.
        above: the rules of the parent.

    The last rule of a file that matches decides.
    """

    __slots__ = ("_above", "_folder", "_rules", "skipped")

    def __init__(self, folder: str = "", lines: Iterable[str] = (), above: IgnoreRules | None = None) -> None:
        rules = [_exact(line) for line in lines]
        kept = [line for line in rules[:RULES] if is_bounded(line)]
        self.skipped = len(rules) - len(kept)
        """Rules that were not understood, or would take too long."""
        self._folder, self._above = folder, above
        self._rules = [
            (_whole(pattern.regex), bool(pattern.include))
            # Git lets the last matching rule win, so the reversed list can stop at its first match.
            for pattern in reversed(list(spec_of(kept).patterns))
            # The library keeps blank lines and comments as patterns without a verdict.
            if pattern.include is not None and pattern.regex is not None
        ]

    def under(self, folder: str, text: str) -> IgnoreRules:
        """Rules of this folder and those of a `.gitignore` with this text in `folder` ("" or "a/b/")."""
        # Only a line feed ends a rule in git; `splitlines` would also cut at form feeds and U+2028.
        return IgnoreRules(folder, text.split("\n"), self)

    def ignores(self, path: str, *, is_folder: bool = False) -> bool:
        """Tell whether a path is ignored, given that the folder it lies in is not."""
        subject = path + "/" if is_folder else path
        rules: IgnoreRules | None = self
        while rules is not None:
            # A pattern is relative to the folder of its file, not to the root of the tree.
            part = subject[len(rules._folder) :]
            for expression, verdict in rules._rules:
                if expression.fullmatch(part):  # the whole path: folders above have been judged before
                    return verdict
            rules = rules._above
        return False


def _exact(line: str) -> str:
    """Git's `folder/**` is about what lies in the folder; the library takes the folder along."""
    line = line.removesuffix("\r")
    if line.endswith("/**"):
        return line + "/*"
    return line + "*/" if line.endswith("/**/") else line


CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \t", "cntrl": "\0-\x1f\x7f", "digit": "0-9",
    "graph": '"-.!0-~', "lower": "a-z", "print": " -.0-~", "punct": '"-.!:-@[-`{-~', "space": " \t-\r", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
"""Class of POSIX -> its letters in brackets, without the slash, which no bracket matches. None begins with the `!` that
negates a bracket."""
CLASS = re.compile(r"\[:([a-z]*):\]")
BRACKET = re.compile(r"\\.|\[[!^]?\]?(?:\[:[a-z]*:\]|\\.|[^\]\\])*+\]?")
"""A bracket with its classes, or an escaped letter; one without an end goes to the end, so that none takes long."""


def spec_of(rules: Iterable[str]) -> GitIgnoreSpec:
    """The rules, compiled by the library, which knows no classes of POSIX and warns of a `[` in brackets.

    Raises:
        ValueError: a rule is malformed, or has a class that is none.
        re.error: a rule is malformed.
    """
    translated = [BRACKET.sub(_without_classes, rule) if "[:" in rule else rule for rule in rules]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return GitIgnoreSpec.from_lines(translated)


def _without_classes(bracket: re.Match[str]) -> str:
    return CLASS.sub(_letters, bracket[0]) if bracket[0].startswith("[") else bracket[0]


def _letters(found: re.Match[str]) -> str:
    # Behind the bracket's first sign: `[:digit:]` alone is a bracket of six letters.
    if found.start() == 0:
        return found[0]
    if found[1] not in CLASSES:
        raise ValueError(f"{found[0]} is no class of letters")
    return CLASSES[found[1]]


EVERYTHING = {".": re.compile(r".+"), "(?P<ps_d>/)": re.compile(r".+/")}
"""The library's short forms of `**` and `**/`, which it searches for, as expressions for whole paths."""


def _whole(expression: re.Pattern[str]) -> re.Pattern[str]:
    return EVERYTHING.get(expression.pattern, expression)


def is_bounded(rule: str) -> bool:
    """Tell whether a rule is well formed and quick to match, whatever the name."""
    runs = [len(re.findall(r"\*+", name)) for name in rule.split("/")]
    if sum(runs) > RUNS or max(runs) > RUNS_PER_NAME or len(rule) > 1000:
        return False
    # Some malformed rules, such as an open bracket, raise only when the library compiles them.
    try:
        spec_of([rule])
    except (ValueError, re.error):
        return False
    return True


NO_RULES = IgnoreRules()


def names_pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    """A single expression for many shell patterns; it matches lower-case names.

    >>> bool(names_pattern(["*.pem"]).match("server.pem")), bool(names_pattern([]).match("server.pem"))
    (True, False)
    """
    # Joining nothing gives an expression that matches every name; `(?!)` matches none.
    return re.compile("|".join(fnmatch.translate(pattern.lower()) for pattern in patterns) or r"(?!)")
