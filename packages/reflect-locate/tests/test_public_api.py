"""The names that a user imports."""

import subprocess
import sys

import pytest

import reflect_locate
from reflect_rl.errors import UserError


def test_every_public_name_exists_and_is_documented():
    assert reflect_locate.__all__ == sorted(reflect_locate.__all__)
    for name in reflect_locate.__all__:
        assert getattr(reflect_locate, name).__doc__, name
        assert name in dir(reflect_locate)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'lokate'"):
        reflect_locate.lokate  # noqa: B018 (the look-up is what is tested)


def test_a_reader_and_an_adapted_ranking_from_python(tmp_path):
    """What the page shows, with the packaged reader."""
    for name, text in (("limits.py", "# Parsing of rate limits."), ("rates.py", "# Rate limits of the clock.")):
        (tmp_path / name).write_text(text)
    tree, question = reflect_locate.open_repository(tmp_path), "Where are rate limits parsed?"
    index = reflect_locate.find(tree, question)
    read = reflect_locate.reread(reflect_locate.open_reader(), tree, question, index)
    assert {file.path for file in read.files} == {file.path for file in index.files}
    assert [file.evidence.read for file in index.files] == [None, None]
    assert max(file.evidence.read for file in read.files) == 1
    with pytest.raises(UserError, match="no adapted ranking in"):
        reflect_locate.AdaptedRanking.load(str(tmp_path))


def test_the_import_loads_no_model_library():
    script = "import sys, reflect_locate; print([name for name in ('torch', 'transformers') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
