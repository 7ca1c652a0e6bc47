"""The script that makes a trained reader the one of the package."""

from __future__ import annotations

import shutil

import pytest
from safetensors.numpy import load_file, save_file

from a_script import load_script
from reflect_locate.small_reader import PACKAGED, load_small_reader


def test_weights_are_written_in_half_precision(tmp_path):
    wide = tmp_path / "wide"
    shutil.copytree(PACKAGED, wide)
    weights = {name: value.astype("float32") for name, value in load_file(wide / "model.safetensors").items()}
    save_file(weights, wide / "model.safetensors", metadata={"format": "pt"})
    assert load_script("package_reader").main([str(wide), "--out", str(tmp_path / "out")]) == 0
    written = tmp_path / "out" / "model.safetensors"
    assert {str(value.dtype) for value in load_file(written).values()} == {"float16"}
    assert written.stat().st_size < 0.6 * (wide / "model.safetensors").stat().st_size
    # The packaged weights are in half precision already, so nothing is lost here.
    packaged, again = load_small_reader(), load_small_reader(tmp_path / "out")
    assert again.likelihood("Where?", "File a.py:") == packaged.likelihood("Where?", "File a.py:")
    assert again.settings == packaged.settings


def test_other_models_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        load_script("package_reader").main([str(tmp_path)])
    assert "is no small reader" in capsys.readouterr().err
