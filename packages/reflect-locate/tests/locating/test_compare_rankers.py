"""scripts/compare_rankers.py: a masked sentence is a question in other words."""

from __future__ import annotations

from a_script import load_script


def test_copies_of_a_masked_sentence_are_not_looked_for_in_strings(tmp_path):
    words = "# Palettes: the format, a handler, a file.\nclass PaletteFile:\n    handler = format\n"
    (tmp_path / "palette_file.py").write_text(words)
    (tmp_path / "gradient.py").write_text('SAID = "a file handler for the palette format"\n' + "x = 1\n" * 20)
    located, question = load_script("compare_rankers").located, "File handler for the palette format"
    assert located(tmp_path)(question)[0] == "gradient.py"
    assert located(tmp_path, masks={"palette_file.py": ((0, 1),)})(question)[0] == "palette_file.py"
