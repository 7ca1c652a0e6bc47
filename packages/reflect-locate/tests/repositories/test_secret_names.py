"""Names of data that are named after secrets, and of what only sounds alike."""

from __future__ import annotations

import pytest

from reflect_locate.repositories.secret_names import is_example, is_named_secret

SECRETS = (
    *("password.yaml", "passwords_old.txt", "passwd", "htpasswd", "db-password", "passphrase.txt", "db.password"),
    *("token.txt", "token", "jwt_token.txt", "github-token.json", "access.token", "authTokens.json", "tokens.yaml"),
    *("api_keys.json", "apikey.txt", "ApiKeys.json", "gcp-key.json", "private_key.txt", "aws access key.csv"),
    *("prod-secrets.yaml", "secret-prod.yaml", "my_secrets.json", "app.secrets", "secrets.yaml.bak", "aws_creds.ini"),
    *("auth.json", "conf/auth.json", "group_vars/all/db_secrets.yml", "MyCredentials.xml"),
)


@pytest.mark.parametrize("path", SECRETS)
def test_data_named_after_secrets(path: str) -> None:
    assert is_named_secret(path)


PROGRAMS = ("secrets.py", "password_reset.py", "token.go", "resetPassword.tsx", "reset_password.sh", "token.proto")
DOCUMENTS = ("token.md", "docs/vault.rst", "password_reset_email.html", "secrets.adoc", "passwd.5")
TEXTS = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokens.txt"),
    *("token_embeddings.npz", "design-tokens.json", "max_tokens.yaml", "token_type_ids.json"),
)
OTHERS = (
    *(
        "public-key.pem",
        "public_key.txt",
        "keys.txt",
        "keyboard.json",
        "primary-key.yaml",
        "secretary.txt",
        "authors.txt",
    ),
    *("password_reset_subject.txt", "reset_admin_password.yaml", "password-policy.json", "secret-schema.json"),
    *("auth.yaml", "locales/en/auth.json", "i18n/de/password.json", "vault-values.yaml", "environment.yml"),
)
EXAMPLES = (
    "secrets.example.yaml",
    "token.txt.example",
    "secrets.yaml.template",
    "credentials.json.sample",
    "env.example",
)


@pytest.mark.parametrize("path", [*PROGRAMS, *DOCUMENTS, *TEXTS, *OTHERS, *EXAMPLES])
def test_what_only_sounds_alike(path: str) -> None:
    assert not is_named_secret(path)


@pytest.mark.parametrize("name", [*EXAMPLES, ".env.example", ".env.sample", ".env.dist", "Example.env"])
def test_examples_hold_no_secrets(name: str) -> None:
    assert is_example(name)


@pytest.mark.parametrize(
    "name", ["example.pem", "example.key", "sample.tfvars", "example.com.env", "template_secrets.json"]
)
def test_secrets_of_examples_are_secrets(name: str) -> None:
    assert not is_example(name)
