"""A git repository for tests, whose commits are an hour apart."""

from __future__ import annotations

import os
import subprocess

from reflect_locate.questions.commits import paths_at
from reflect_locate.questions.sources import history
from reflect_locate.repositories.snapshot import Snapshot

START = 1_700_000_000
HOUR = 3600


class Repository:
    """A repository whose commits are an hour apart."""

    def __init__(self, folder):
        self.folder, self.hours = folder, 0
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words, author="Ada <ada@example.org>", given=""):
        name, _, address = author.partition(" <")
        date = f"{START + self.hours * HOUR} +0000"
        mine = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        for role in ("AUTHOR", "COMMITTER"):
            mine |= {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": address.rstrip(">"), f"GIT_{role}_DATE": date}
        run = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env=os.environ | mine,
            check=True,
            capture_output=True,
            input=given.encode(),
        )
        return run.stdout.decode().strip()

    def commit(self, message, files=(), author="Ada <ada@example.org>", **texts):
        """One commit, an hour after the last; returns its time. `files` is path -> text, None removes it."""
        self.hours += 1
        for path, text in (dict(files) | texts).items():
            place = self.folder / path
            if text is None:
                self.git("rm", "-q", "--", path)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, author=author)
        return START + self.hours * HOUR

    def snapshot(self, revision="HEAD"):
        return Snapshot("mine", dict.fromkeys(paths_at(self.folder, revision), ""))

    def found(self, revision="", **options):
        """(source, target, text) of each candidate after a revision (by default the first commit)."""
        revision = revision or self.git("rev-list", "--max-parents=0", "HEAD")
        out = history.candidates(self.folder, revision, self.snapshot(revision), "HEAD", **options)
        return [(entry.source, entry.target, entry.text) for entry in out]


TOPICS = ("kettle whistles", "parking tickets", "violin strings", "glacier maps", "harbour cranes")
VERBS = (
    *("Repair", "Explain", "Speed", "Shorten", "Rename", "Check"),
    *("Widen", "Soften", "Count", "Mend", "Polish", "Copy"),
)


def told(repository, is_telling=True):
    """Five files of which only the commits tell what they are about: 60 commits after the first, one an hour."""
    changes = [("Begin", {f"m{number}.c": "x = 0;\n" for number in range(5)})]
    for turn, verb in enumerate(VERBS):
        for number, topic in enumerate(TOPICS):
            # Where the history tells nothing, the same subjects are about another file each time.
            file = number if is_telling else (number + turn) % 5
            changes.append((f"{verb} {topic} part {turn}", {f"m{file}.c": f"x = {turn * 5 + number + 1};\n"}))
    lines = []
    for message, files in changes:
        repository.hours += 1
        who = f"Ada <ada@example.org> {START + repository.hours * HOUR} +0000"
        lines += ["commit refs/heads/main", f"committer {who}", f"data {len(message)}", message]
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text)}", text]
    # One process for all commits: three for each would take most of the time of a test.
    repository.git("fast-import", "--quiet", given="\n".join(lines) + "\n")
    repository.git("reset", "-q", "--hard")
    return repository
