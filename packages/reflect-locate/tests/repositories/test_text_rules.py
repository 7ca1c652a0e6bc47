"""What `locate` and `serve` read: every text but data, generated files and media."""

import base64
import random
import subprocess
import tarfile
import zipfile

import pytest

from reflect_locate.cli.locate import told_left_out
from reflect_locate.ranking import find
from reflect_locate.repositories.gate import SUFFIXES, IngestRules
from reflect_locate.repositories.ingest import ingest, open_repository
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.repositories.tree import Tree
from reflect_locate.served_answers import SearchService
from reflect_locate.served_folders import ServedFolders

RUST = {
    "Cargo.toml": '[package]\nname = "kettle"\nedition = "2021"\n',
    "Cargo.lock": "[[package]]\nname = 'edition'\n",
    "src/main.rs": "// Parses rate limits.\nfn parse_limit(text: &str) -> u32 { 3 }\n",
    "src/clock.rs": "// Watches.\nfn now() -> u64 { 0 }\n",
    "Makefile": "release:\n\tcargo build --release\n",
}
TYPESCRIPT = {
    "package.json": '{"name": "kettle", "scripts": {"lint": "eslint ."}}\n',
    "package-lock.json": '{"name": "kettle", "lint": "eslint"}\n',
    "src/limits.ts": "// Parses rate limits.\nexport function parseLimit(text: string): number { return 3 }\n",
    "src/view.tsx": "export const View = () => <p>steam</p>\n",
    "src/page.html": "<title>Brewing tea</title>\n",
    "dist/app.min.js": "function parseLimit(){}\n",
    "dist/app.js.map": '{"sources": ["limits.ts"]}\n',
}


def written(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "question", "first"),
    [
        (RUST, "Where are rate limits parsed?", "src/main.rs"),
        (RUST, "which edition has the package", "Cargo.toml"),
        (RUST, "how does cargo build a release", "Makefile"),
        (TYPESCRIPT, "Where are rate limits parsed?", "src/limits.ts"),
        (TYPESCRIPT, "steam view", "src/view.tsx"),
        (TYPESCRIPT, "brewing tea", "src/page.html"),
        (TYPESCRIPT, "lint script", "package.json"),
    ],
)
def test_trees_of_other_languages_are_read(tmp_path, files, question, first):
    answer = find(open_repository(written(tmp_path / "kettle", files)), question)
    assert (answer.files[0].path, answer.found) == (first, True)


def test_endings_that_are_left_out_are_told_with_their_number(tmp_path):
    snapshot = ingest(written(tmp_path / "kettle", {**TYPESCRIPT, "a.svg": "<svg/>", "b.SVG": "<svg/>"}), ALL_TEXT)
    assert sorted(snapshot.files) == ["package.json", "src/limits.ts", "src/page.html", "src/view.tsx"]
    assert told_left_out(snapshot) == (
        "kettle: 4 files; left out: other type 5 (.svg 2, .map 1, .min.js 1, package-lock.json 1)"
    )


def test_scripts_without_an_ending_and_licences_are_texts_and_binaries_are_not(tmp_path):
    written(tmp_path, {"LICENSE": "MIT", "Dockerfile": "FROM x", "run": "#!/bin/sh\n", "a.pyi": "x: int\n"})
    (tmp_path / "tool").write_bytes(b"\x7fELF\0\0")
    assert sorted(ingest(tmp_path, ALL_TEXT).files) == ["Dockerfile", "LICENSE", "a.pyi", "run"]
    assert told_left_out(ingest(tmp_path, ALL_TEXT)).endswith("4 files; left out: binary 1 (tool)")


def test_files_that_are_left_out_for_a_rare_reason_are_named(tmp_path):
    folder = written(tmp_path / "kettle", {"a.py": "x = 1\n", "b\x1b[2J.py": "x\n", ".hidden": "x\n"})
    for number in range(4):
        (folder / f"pot{number}.py").symlink_to(folder / "a.py")
    (folder / "latin.py").write_bytes("# Tee für alle\n".encode("latin-1"))
    (folder / "tool").write_bytes(b"\x7fELF\0\xff")
    assert told_left_out(ingest(folder, ALL_TEXT)) == (
        r"kettle: 1 files; left out: binary 1 (tool), hidden 1, not UTF-8 1 (latin.py), symlink 4 (pot0.py, pot1.py, "
        r"pot2.py, ...), unsafe name 1 (b\x1b[2J.py)"
    )


def test_games_and_task_sets_keep_the_list_of_the_paper(tmp_path):
    with pytest.raises(SnapshotError, match=r"Files that are read end with \.py"):
        ingest(written(tmp_path, {path: text for path, text in RUST.items() if not path.endswith(".json")}))
    assert sorted(ingest(written(tmp_path, {"secrets.py": "x", "a.py": "x"})).files) == ["a.py"]


def test_a_folder_of_data_alone_says_what_is_read(tmp_path):
    with pytest.raises(SnapshotError, match=r"Every text is read but data, generated files and media"):
        ingest(written(tmp_path, {"a.jsonl": "1"}), ALL_TEXT)


def test_sources_about_secrets_are_read_and_secrets_are_not(tmp_path):
    """The names of `reflect_served`, the standard library's stubs and openai's vaults."""
    sources = (
        *("secrets.py", "secrets.pyi", "vaults/credentials.py", "client_secret.ts", "src/credentials_store.go"),
        *("pkg/kubeconfig.go", "pkg/kubeconfig_test.go", "id_rsa_test.go", "api/secrets.proto"),
    )
    secrets = ("secrets.yaml", "credentials.json", "client_secret_1.json", "id_rsa", "secrets/a.py", "passwords.txt")
    snapshot = ingest(written(tmp_path / "x", dict.fromkeys((*sources, *secrets), "x = 1\n")), ALL_TEXT)
    assert sorted(snapshot.files) == sorted(sources)
    assert told_left_out(snapshot) == (
        "x: 9 files; left out: secret 6 (client_secret_1.json, credentials.json, id_rsa, passwords.txt, "
        "secrets.yaml, ...)"
    )


def test_data_named_after_secrets_are_left_out_and_programs_and_documents_are_read(tmp_path):
    read = ("password_reset.py", "docs/token.md", "docs/vault.rst", "tokens/a.py", "locales/en/auth.json", "tokens.txt")
    secrets = ("password.yaml", "my_secrets.json", "prod-secrets.yaml", "auth.json", "vault.yml", "deploy/token")
    files = dict.fromkeys((*read, *secrets), "x = 1\n") | {"bin/reset-token": "x = 1\n", "bin/token": "#!/bin/sh\n"}
    folder = written(tmp_path / "x", files)
    snapshot = ingest(folder, ALL_TEXT)
    assert set(snapshot.files) == {*read, "bin/reset-token", "bin/token"}
    assert {entry.path for entry in snapshot.left_out if entry.reason == "secret"} == set(secrets)
    # In an archive, which holds its names in any order, too.
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    assert set(ingest(tmp_path / "x.zip", ALL_TEXT).files) == set(snapshot.files)


def test_without_a_deny_list_names_are_not_judged(tmp_path):
    folder = written(tmp_path, {"a.py": "x", "my_secrets.json": "{}", "token.txt": "x", "secrets.yaml": "a: b"})
    assert len(ingest(folder, IngestRules(deny=())).files) == 4


def test_a_file_that_is_a_token_is_left_out_whatever_its_name(tmp_path):
    token = "ghp_" + "1a" * 18
    folder = written(tmp_path / "x", {"note.txt": token + "\n", "guide.txt": f"Tokens look like {token}.\n"})
    assert set(ingest(folder, ALL_TEXT).files) == {"guide.txt"}


def test_a_secret_of_kubernetes_with_a_private_key_is_left_out(tmp_path):
    line = base64.b64encode(random.Random(0).randbytes(48)).decode()
    kinds = {"key": f"-----BEGIN PRIVATE KEY-----\n{line}\n", "crt": f"-----BEGIN CERTIFICATE-----\n{line}\n"}
    files = {f"{kind}.yaml": f"tls: {base64.b64encode(text.encode()).decode()}\n" for kind, text in kinds.items()}
    assert set(ingest(written(tmp_path / "x", files), ALL_TEXT).files) == {"crt.yaml"}


def test_a_private_key_in_a_source_still_keeps_it_out(tmp_path):
    line = base64.b64encode(random.Random(0).randbytes(48)).decode()
    key = f'KEY = """-----BEGIN RSA PRIVATE KEY-----\n{line}\n"""\n'
    snapshot = ingest(written(tmp_path / "x", {"secrets.py": key, "a.py": "x"}), ALL_TEXT)
    assert told_left_out(snapshot) == "x: 1 files; left out: secret 1 (secrets.py)"


def test_a_server_sees_and_outlines_configuration_and_reads_it_again(tmp_path):
    folder = written(tmp_path / "kettle", RUST)
    service = SearchService(ServedFolders([str(folder)]))
    assert service.what_is_in("Cargo.toml", lambda: False).lines == 3
    asked = ("workspace members", "", 1, lambda: False)
    assert service.find_file(*asked).confidence == 0
    (folder / "Cargo.toml").write_text('[workspace]\nmembers = ["a"]\n')
    assert service.find_file(*asked).files[0].path == "Cargo.toml"


def test_a_commit_is_read_by_the_same_rules(tmp_path):
    folder = written(tmp_path / "kettle", RUST)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    tree = Tree(ingest(f"{folder}@HEAD", ALL_TEXT))
    assert tree.paths == ("Cargo.toml", "Makefile", "src/clock.rs", "src/main.rs")


def test_what_the_games_offer_is_read_as_well():
    assert all(ALL_TEXT.offers(f"a{suffix}") for suffix in SUFFIXES)


def test_hidden_files_that_say_how_a_project_is_built_are_read_and_no_others(tmp_path):
    hidden = {
        ".github/workflows/test.yml": "name: continuous integration\n",
        ".ci/run": "# Continuous integration.\n",
        ".gitlab-ci.yml": "stages: [integration]\n",
        ".github/.netrc": "integration",
        ".idea/workspace.xml": "integration",
        ".github/secrets.yml": "integration: continuous\n",
    }
    tree = open_repository(written(tmp_path / "kettle", RUST | hidden))
    assert {path for path in tree.paths if path.startswith(".")} == set(list(hidden)[:3])
    assert find(tree, "continuous integration").files[0].path in hidden


def test_a_server_sees_the_change_of_a_hidden_file_that_is_read(tmp_path):
    folder = written(tmp_path / "kettle", RUST | {".ci/run": "# Lint.\n"})
    service = SearchService(ServedFolders([str(folder)]))
    asked = ("continuous integration", "", 1, lambda: False)
    assert service.find_file(*asked).confidence == 0
    (folder / ".ci/run").write_text("# Continuous integration, and lint.\n")
    assert service.find_file(*asked).files[0].path == ".ci/run"


def test_of_a_package_called_credentials_sources_alone_are_read(tmp_path):
    files = {"credentials/tls.py": "x = 1\n", "credentials/token.txt": "x\n", "credentials/credentials.yml": "a: b\n"}
    others = {"secrets/settings.py": "x = 1\n", "a/credentials/b/id_rsa": "x = 1\n", "kubeconfig/admin": "token: x\n"}
    written(tmp_path / "kettle", files | others | {"cmd/kubeconfig/load.go": "package kubeconfig\n"})
    assert set(ingest(str(tmp_path / "kettle"), ALL_TEXT).files) == {"credentials/tls.py", "cmd/kubeconfig/load.go"}


@pytest.mark.parametrize("kind", ["PUBLIC KEY BLOCK", "PRIVATE KEY BLOCK", "MESSAGE", "SIGNATURE"])
def test_asciidoc_is_read_and_what_is_armoured_with_its_ending_is_not(tmp_path, kind):
    armoured = f"-----BEGIN PGP {kind}-----\n\nmQENBF\n-----END PGP {kind}-----\n"
    written(tmp_path / "kettle", {"book/ch01.asc": "== Boiling water\n\nA kettle.\n", "release.tar.gz.asc": armoured})
    tree = Tree(ingest(str(tmp_path / "kettle"), ALL_TEXT))
    assert tree.paths == ("book/ch01.asc",)
    assert find(tree, "how to boil water").with_lines(tree, 1)[0].lines.symbol == "Boiling water"
    assert "*.asc" in IngestRules().deny


def test_variables_of_terraform_are_secret_in_json_too(tmp_path):
    written(tmp_path / "kettle", {"main.tf": "x = 1\n", "a.auto.tfvars.json": "{}\n", "b.tfvars": "x = 1\n"})
    assert set(ingest(str(tmp_path / "kettle"), ALL_TEXT).files) == {"main.tf"}


BARE = {
    "HEAD": "ref: refs/heads/main\n",
    "config": "url = https://tea:pot@x\n",
    "objects/info/x": "x\n",
    "refs/x": "x\n",
}


@pytest.mark.parametrize("name", ["mirror.git", "a/dotgit"])
def test_a_git_repository_inside_a_folder_is_not_read_whatever_its_name(tmp_path, name):
    files = {"tea.py": "x = 1\n", "docs/HEAD": "x\n", "docs/refs/a.txt": "x\n"}
    folder = written(tmp_path / "kettle", files | {f"{name}/{path}": text for path, text in BARE.items()})
    found = ingest(str(folder), ALL_TEXT)
    assert set(found.files) == set(files)
    assert [entry.reason for entry in found.left_out if entry.path == f"{name}/"] == ["hidden"]


def test_a_mirror_whose_references_are_packed_is_not_read_either(tmp_path):
    packed = {name: text for name, text in BARE.items() if not name.startswith("refs/")} | {"packed-refs": "x\n"}
    packed["config"] = "[core]\n[remote]\n\turl = https://tea:pot@x\n"
    del packed["objects/info/x"]
    folder = written(
        tmp_path / "kettle", {"tea.py": "x = 1\n"} | {f"a.git/{path}": text for path, text in packed.items()}
    )
    (folder / "a.git/objects").mkdir()
    # As an archive of a commit has it: no empty folder, no object.
    with zipfile.ZipFile(tmp_path / "kettle.zip", "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    for source in (folder, tmp_path / "kettle.zip"):
        found = ingest(str(source), ALL_TEXT)
        assert set(found.files) == {"tea.py"}
        assert "a.git/" in [entry.path for entry in found.left_out if entry.reason == "hidden"]


def test_a_path_of_thousands_of_folders_costs_nothing(tmp_path):
    with zipfile.ZipFile(tmp_path / "kettle.zip", "w") as archive:
        for number in range(3):
            archive.writestr("refs/" * 10_000 + f"{number}/HEAD", "ref: refs/x")
        archive.writestr("tea.py", "x = 1")
    assert set(ingest(str(tmp_path / "kettle.zip"), ALL_TEXT).files) == {"tea.py"}


def test_a_git_repository_inside_an_archive_or_a_commit_is_not_read(tmp_path):
    folder = written(tmp_path / "kettle", {"tea.py": "x = 1\n"} | {f"a/b/{path}": text for path, text in BARE.items()})
    with tarfile.open(tmp_path / "kettle.tar", "w") as archive:
        archive.add(folder, "kettle")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
    author = ["-c", "user.name=tea", "-c", "user.email=tea@pot"]
    subprocess.run(["git", "-C", folder, *author, "commit", "-qm", "tea"], check=True)
    for source in (str(tmp_path / "kettle.tar"), f"{folder}@HEAD"):
        assert set(ingest(source, ALL_TEXT).files) == {"tea.py"}
