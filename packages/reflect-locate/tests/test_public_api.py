"""The names that a user imports."""

import subprocess
import sys

import pytest

import reflect_locate


def test_every_public_name_exists_and_is_documented():
    assert reflect_locate.__all__ == sorted(reflect_locate.__all__)
    for name in reflect_locate.__all__:
        assert getattr(reflect_locate, name).__doc__, name
        assert name in dir(reflect_locate)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'lokate'"):
        reflect_locate.lokate  # noqa: B018 (the look-up is what is tested)


def test_the_import_loads_no_model_library():
    script = "import sys, reflect_locate; print([name for name in ('torch', 'transformers') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
