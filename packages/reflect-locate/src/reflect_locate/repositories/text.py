"""Bytes to text, and names that can be shown: what is neither is left out of a snapshot."""

from __future__ import annotations

import codecs
import unicodedata

UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode: control characters, invisible ones (bidirectional overrides, zero width), lone surrogates, line ends."""


def decode(data: bytes) -> str | None:
    r"""The text of a file: UTF-8 with or without a mark, or UTF-16 with one; None for anything else.

    Every line ends with a line feed.

    >>> decode(b"\xef\xbb\xbfa\r\nb\rc")
    'a\nb\nc'
    >>> decode(b"\x7fELF\x00") is None
    True
    """
    # The mark of UTF-32 begins with that of UTF-16, which would decode it into nonsense.
    if data.startswith(UTF_32):
        return None
    try:
        text = data.decode("utf-16" if data.startswith(UTF_16) else "utf-8-sig")
    except UnicodeDecodeError:
        return None
    # A zero byte is valid UTF-8, and many binary formats hold nothing else that is not.
    if "\0" in text:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def is_safe_name(name: str) -> bool:
    r"""Tell whether a name of one file or folder can be shown and is one name on every system.

    >>> is_safe_name("my $(file).md"), is_safe_name("a\nb.md"), is_safe_name("..")
    (True, False, False)
    """
    # A backslash separates folders on Windows, so that one name here would be a path there.
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        return False
    # Most names are ASCII, and this test avoids a look-up for each letter.
    if name.isascii():
        return name.isprintable()
    return not any(unicodedata.category(letter) in UNSAFE_CATEGORIES for letter in name)


def shown(path: str) -> str:
    r"""A path as it can be printed: what is unsafe in it is escaped.

    >>> shown("a\x1b[2J.md")
    'a\\x1b[2J.md'
    """
    return "".join(letter if letter.isascii() and letter.isprintable() else _escaped(letter) for letter in path)


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in UNSAFE_CATEGORIES:
        return letter.encode("unicode_escape").decode("ascii")
    return letter
