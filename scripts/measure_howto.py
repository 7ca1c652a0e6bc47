"""Share of questions for which `reflect-rl locate` has the right document first where a question asks for instructions.

    python scripts/measure_howto.py docs/results/find/how-to.json FOLDER

The file holds questions such as `how do I run the tests`, with the files that answer each, for repositories at one
commit. FOLDER holds a checkout of each of them under its name; those that are missing are left out, with a line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from measure_find import rate

from reflect_locate import find, open_repository
from reflect_locate.evidence import Sureness
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.word_store import WordStore

TOP = 5


def main(arguments: Sequence[str]) -> int:
    """Ask all questions and print the rates; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", help="file of questions")
    parser.add_argument("folder", help="folder of checkouts")
    parser.add_argument("--wrong", action="store_true", help="print each question whose first file is wrong")
    options = parser.parse_args(arguments)
    for name, repositories in json.loads(Path(options.questions).read_text(encoding="utf-8")).items():
        rows: list[tuple[bool, bool, Sureness]] = []
        for repository, held in repositories.items():
            root = Path(options.folder) / repository
            if not root.is_dir():
                print(f"{repository}: no folder {root}; get {held['address']} at {held['commit']}")
                continue
            tree = open_repository(str(root))
            index = StoredIndex(tree, WordStore())
            for question, right in held["questions"]:
                answer = find(tree, question, index)
                paths = [entry.path for entry in answer.files]
                rows.append((paths[0] in right, not set(right).isdisjoint(paths[:TOP]), answer.sureness))
                if options.wrong and paths[0] not in right:
                    print(f"  {repository}: {question}: {', '.join(paths[:3])}")
        print(f"{name}: first {rate([first for first, _, _ in rows])}, in five {rate([five for _, five, _ in rows])}")
        for word in ("sure", "likely", "a guess"):
            print(f"  {word}: {rate([first for first, _, said in rows if said == word])}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
