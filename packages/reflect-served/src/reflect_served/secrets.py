"""Keys in texts: found by their form, and left out of what is sent to a server."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from io import StringIO
from typing import Any

PRIVATE_KEY = re.compile(
    r"----[- ]BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?[- ]----.{0,2000}?[A-Za-z0-9+/]{24}", re.DOTALL
)
"""The first line of a key (PEM, SSH2), perhaps headers, then base64: code and manuals often name the first line
alone."""
REST_OF_KEY = re.compile(r".*?(?:----[- ]END [A-Z0-9 ]{0,60}KEY(?: BLOCK)?[- ]----|\Z)", re.DOTALL)
DASHES = "LS0t"
"""Three dashes in base64, which stand in each of the forms below."""
ENCODED = re.compile(
    r"(?:(LS0tLS1CRUdJTi)|(0tLS0tQkVHSU4g)|tLS0tLUJFR0lOI)[A-Za-z0-9+/]*(?:(?:\s|\\[nr])+[A-Za-z0-9+/]{20,})*={0,2}"
)
"""Base64 from `-----BEGIN ` on, as in a Secret of Kubernetes; it begins with the first, the second (the groups) or the
third byte of three. Lines may end in between."""
BREAKS = re.compile(r"\s|\\[nr]|=")

TOKEN = re.compile(
    r"""(?:export\s+)?(?:"?[\w.-]{1,60}"?\s*[=:]\s*)?["']?(?=\S*\d)(?:"""
    r"gh[opsur]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}|xox[abeprs]-[\w-]{20,}|npm_\w{36}|pypi-AgE[\w-]{50,}"
    r"|sk-[\w-]{20,}|[rs]k_live_\w{20,}|hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|SG\.[\w-]{20,}\.[\w-]{40,}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    r""")["']?[,;]?"""
)
"""A line that is a token of a known form, perhaps with its name."""
LONGEST_TOKEN = 5_000
"""Characters of a file that may be a token and nothing else."""

TOKENS = (
    *("ArtifactoryDetector", "AWSKeyDetector", "AzureStorageKeyDetector", "BasicAuthDetector", "CloudantDetector"),
    *(
        "DiscordBotTokenDetector",
        "GitHubTokenDetector",
        "GitLabTokenDetector",
        "IbmCloudIamDetector",
        "JwtTokenDetector",
    ),
    *("MailchimpDetector", "NpmDetector", "OpenAIDetector", "PrivateKeyDetector", "PypiTokenDetector"),
    *("SendGridDetector", "SlackDetector", "SoftlayerDetector", "SquareOAuthDetector", "StripeDetector"),
    *("TelegramBotTokenDetector", "TwilioKeyDetector"),
)
"""Detectors of `detect-secrets` that know the form of a key. Those that guess by entropy or by the name of a variable
would keep back every checksum."""
LEFT_OUT = "(a key, left out)"


def holds_private_key(text: str) -> bool:
    """Tell whether a private key stands in the text (PEM, OpenSSH, PGP; also in JSON, a string or base64)."""
    # The plain searches are fast and reject nearly all files before an expression runs.
    if "PRIVATE KEY" in text and PRIVATE_KEY.search(text) is not None:
        return True
    return DASHES in text and any(map(_is_encoded_key, ENCODED.finditer(text)))


def _is_encoded_key(found: re.Match[str]) -> bool:
    # The letters before, of which a part belongs to the first dash.
    letters = ("" if found[1] else "AC" if found[2] else "AAA") + BREAKS.sub("", found[0])
    try:
        text = base64.b64decode(letters[: len(letters) // 4 * 4]).decode("latin-1")
    except binascii.Error:
        return False
    return PRIVATE_KEY.search(text) is not None


def is_token(text: str) -> bool:
    r"""Tell whether a text is a few tokens of known forms and nothing else but comments.

    >>> is_token("# mine\nTOKEN=ghp_" + 36 * "1"), is_token("How to use ghp_" + 36 * "1")
    (True, False)
    """
    if len(text) > LONGEST_TOKEN:
        return False
    # Lazily, as the first line tells of nearly all files that they are none.
    lines = (line for line in map(str.strip, StringIO(text)) if line and not line.startswith("#"))
    first = next(lines, "")
    return TOKEN.fullmatch(first) is not None and all(TOKEN.fullmatch(line) for line in lines)


def holds_secret(text: str) -> bool:
    """Tell whether a key stands in a text that may leave this machine, by `detect-secrets` and `holds_private_key`.

    >>> holds_secret("token = 'ghp_" + 36 * "a" + "'"), holds_secret("token = read()")
    (True, False)
    """
    return holds_private_key(text) or any(any(detector.analyze_string(text)) for detector in _detectors())


@lru_cache(256)  # rules of a game stand in each of its prompts
def without_secrets(text: str) -> str:
    """The text without the keys that `holds_secret` finds.

    >>> without_secrets("token = 'ghp_" + 36 * "a" + "'")
    "token = '(a key, left out)'"
    """
    while holds_private_key(text) and (found := PRIVATE_KEY.search(text)):
        rest = REST_OF_KEY.match(text, found.end())
        text = text[: found.start()] + LEFT_OUT + text[rest.end() if rest else found.end() :]
    text = ENCODED.sub(lambda found: LEFT_OUT if _is_encoded_key(found) else found[0], text)
    for detector in _detectors():
        if any(detector.analyze_string(text)):
            # By its patterns, since of a match it may give the first letters alone.
            for pattern in detector.denylist:
                text = pattern.sub(LEFT_OUT, text)
    return text


@cache
def _detectors() -> tuple[Any, ...]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    kinds: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    return tuple(kind() for kind in kinds if kind.__name__ in TOKENS)
