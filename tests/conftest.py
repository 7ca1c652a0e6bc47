"""Makes the helper modules of this folder, such as `tiny_models`, importable in every test."""
