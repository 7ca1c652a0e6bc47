"""The generated part of docs/reference/configuration.md is that of the configuration models as they are."""

from __future__ import annotations

import pytest

from a_script import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("make_config_docs")


def test_the_page_is_current(script):
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.updated(page), "run `make docs`"


def test_a_key_is_shown_with_type_bounds_default_and_meaning(script):
    from reflect_rl.training.config import SFTConfig

    row = script._row(SFTConfig, "batch_size")
    assert row == "| `batch_size` | integer, ≥ 1 | `32` | Rows per step. |"


def test_a_page_without_the_marker_is_refused(script):
    with pytest.raises(ValueError, match="lacks the line"):
        script.updated("# Configuration\n")
