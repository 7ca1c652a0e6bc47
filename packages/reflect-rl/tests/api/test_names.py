"""The public names: what the package offers, what type checkers see, and what the page lists are the same."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reflect_rl
from reflect_rl import api

ROOT = Path(__file__).parents[4]


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_all_is_sorted_and_every_name_loads():
    assert reflect_rl.__all__ == sorted(set(reflect_rl.__all__))
    for name in reflect_rl.__all__:
        assert getattr(reflect_rl, name) is not None
        assert name in dir(reflect_rl)


def test_type_checkers_see_the_same_names_from_the_same_modules():
    tree = ast.parse(Path(reflect_rl.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    seen = {alias.asname: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted([*seen, "__version__"]) == reflect_rl.__all__
    for name, module in seen.items():
        assert getattr(sys.modules[module], name) is getattr(reflect_rl, name)


def test_the_page_lists_every_public_name():
    page = (ROOT / "docs" / "start" / "api.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| name \| \|\n\|---\|---\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    listed = [line.split("`")[1] for table in tables for line in table.splitlines()]
    assert sorted(listed) == reflect_rl.__all__


def test_the_page_shows_every_argument_and_default():
    page = (ROOT / "docs" / "start" / "api.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(load_agent.*?)```", page, re.DOTALL)
    assert shown is not None
    functions = {name: getattr(reflect_rl, name) for name in api.__all__}
    signatures = {name: inspect.signature(function) for name, function in functions.items()}
    # Without types, which the documentation of each argument names.
    plain = {
        name: signature.replace(
            parameters=[each.replace(annotation=each.empty) for each in signature.parameters.values()],
            return_annotation=signature.empty,
        )
        for name, signature in signatures.items()
    }
    assert sorted(shown[1].splitlines()) == sorted(f"{name}{signature}" for name, signature in plain.items())


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="module 'reflect_rl' has no attribute 'train_it'"):
        reflect_rl.train_it  # noqa: B018


def test_importing_loads_no_torch():
    heavy = "('torch', 'transformers', 'peft', 'accelerate', 'matplotlib', 'gymnasium')"
    assert in_a_fresh_process(f"import sys, reflect_rl; print([m for m in {heavy} if m in sys.modules])") == "[]"
    names = "reflect_rl.TextEnv, reflect_rl.EnvSpec, reflect_rl.Task, reflect_rl.Policy, reflect_rl.UserError"
    assert in_a_fresh_process(f"import sys, reflect_rl; {names}; print('torch' in sys.modules)") == "False"


@pytest.mark.parametrize(
    "imports",
    [
        "import reflect_rl, gymnasium",
        "import gymnasium, reflect_rl",
        "import reflect_rl.envs.gym, gymnasium",
        "import reflect_rl; from gymnasium.wrappers import TimeLimit; import gymnasium",
    ],
)
def test_the_gymnasium_ids_are_there_when_both_are_imported(imports):
    code = f"{imports}; env = gymnasium.make('reflect_rl/DangerousTaxi-v1'); env.reset(seed=0); "
    assert in_a_fresh_process(code + "print(env.spec.id)") == "reflect_rl/DangerousTaxi-v1"


def test_what_a_newcomer_tries_first_loads_neither_torch_nor_gymnasium():
    code = (
        "import sys; from reflect_rl.cli.main import main; import reflect_report.cli.play; main(['run', '--help']); "
        "print([m for m in ('torch', 'transformers', 'gymnasium') if m in sys.modules])"
    )
    assert in_a_fresh_process(code).splitlines()[-1] == "[]"
