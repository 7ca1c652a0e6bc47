"""Keys in texts: found by their form, and left out of what is sent to a server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

PRIVATE_KEY = re.compile(
    r"----[- ]BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?[- ]----.{0,2000}?[A-Za-z0-9+/]{24}", re.DOTALL
)
"""The first line of a key (PEM, SSH2), perhaps headers, then base64: code and manuals often name the first line
alone."""
REST_OF_KEY = re.compile(r".*?(?:----[- ]END [A-Z0-9 ]{0,60}KEY(?: BLOCK)?[- ]----|\Z)", re.DOTALL)

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
    """Tell whether a private key stands in the text (PEM, OpenSSH, PGP; also inside JSON or a string of a program)."""
    # The plain search is fast and rejects nearly all files before the expression runs.
    return "PRIVATE KEY" in text and PRIVATE_KEY.search(text) is not None


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
