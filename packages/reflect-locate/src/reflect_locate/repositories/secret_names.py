"""Names of data that are named after secrets, such as `prod-api-keys.json`, and of examples that hold none."""

from __future__ import annotations

import re

VALUES = frozenset((
    "", "txt", "json", "jsonc", "json5", "yaml", "yml", "toml", "ini", "cfg", "conf", "cnf", "config", "properties",
    "props", "plist", "xml", "csv", "tsv", "env", "rc", "enc", "b64", "local", "prod", "production", "staging", "dev",
    "bak", "backup", "old", "orig", "save", "tmp", "swp", "secret", "secrets", "token", "password", "passwd", "key",
))  # fmt: skip
"""Endings of files that hold values, and none at all. Programs and documents may speak of secrets."""
WORDS = frozenset((
    "secret", "secrets", "password", "passwords", "passwd", "htpasswd", "htdigest", "passphrase", "passphrases",
    "credential", "credentials", "creds", "token", "tokens", "apikey", "apikeys", "accesskey", "accesskeys",
    "secretkey", "privatekey", "privatekeys", "authtoken", "accesstoken",
))  # fmt: skip
"""Words that mark a secret where they are a whole part of a name."""
OWNERS = frozenset((
    "access", "account", "admin", "anthropic", "api", "auth", "aws", "azure", "deploy", "encryption", "firebase",
    "gcloud", "gcp", "github", "google", "jwt", "master", "openai", "private", "secret", "service", "signing", "ssh",
    "stripe",
))  # fmt: skip
"""Words before `key` that make it a secret; other keys are those of tables, keyboards and maps."""
ORDINARY = frozenset((
    "reset", "change", "changed", "forgot", "forgotten", "recovery", "policy", "policies", "strength", "rule", "rules",
    "schema", "schemas", "type", "types", "public",
    "added", "bucket", "classification", "color", "colors", "cost", "costs", "count", "counts", "design", "embedding",
    "embeddings", "frequencies", "frequency", "ids", "limit", "limits", "map", "mask", "max", "min", "special", "stat",
    "stats", "usage", "vocab", "vocabulary",
))  # fmt: skip
"""Words of names that speak of secrets and hold none, or of tokens of texts and of designs."""
CORPORA = frozenset(("txt", "csv", "tsv"))
"""Endings with which `tokens` are most often words of a text."""
TRANSLATIONS = re.compile(r"(?:^|/)_?(?:i18n|l10n|langs?|languages?|locales?|translations?)/", re.IGNORECASE)
"""Folders of texts in several languages, whose `auth.json` names the buttons of a login."""
EXAMPLES = frozenset(("example", "examples", "sample", "template", "tmpl", "tpl", "dist"))
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
SIGNS = re.compile(r"[-_. ]+")


def is_named_secret(path: str) -> bool:
    """Tell whether a file is data that is named after secrets.

    >>> is_named_secret("conf/prodApiKeys.json"), is_named_secret("token.md"), is_named_secret("tokenizer.json")
    (True, False, False)
    """
    name = path.rpartition("/")[2]
    ending = name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""
    if ending not in VALUES:
        return False
    parts = SIGNS.split(HUMP.sub(" ", name).lower())
    found = WORDS.intersection(parts)
    if ending in CORPORA:
        found -= {"tokens"}
    is_key = any(part in OWNERS and parts[place] in ("key", "keys") for place, part in enumerate(parts[:-1], start=1))
    if not found and not is_key and name.lower() != "auth.json":
        return False
    return ORDINARY.isdisjoint(parts) and not is_example(name) and not TRANSLATIONS.search(path)


def is_example(name: str) -> bool:
    """Tell whether a name is that of an example of a file with secrets, which people publish.

    >>> is_example(".env.example"), is_example("secrets.sample.yaml"), is_example("example.pem")
    (True, True, False)
    """
    *_, before, ending = ["", "", *SIGNS.split(name.lower())]
    # A key of the host example.com is a key.
    return ending in EXAMPLES or (before in EXAMPLES and ending in VALUES - {"key", "secret", "token", "password"})
