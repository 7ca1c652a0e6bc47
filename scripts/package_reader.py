r"""Writes a trained reader as the one of this package (`locate --deep`), in half precision.

    python scripts/package_reader.py runs/reader/model

The reader has to be a small one, which numpy computes: `train_reader` makes one from the policy of the packaged player.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from reflect_locate.reader_settings import is_small
from reflect_locate.small_reader import PACKAGED
from reflect_rl.store import read_json, write_json

WEIGHTS, SHAPE = "model.safetensors", "config.json"


def main(arguments: Sequence[str]) -> int:
    """Copy the reader's files, with its weights in 16 bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", type=Path, help="folder that train_reader wrote")
    parser.add_argument("--out", type=Path, default=PACKAGED, help="folder to write to (default: the package's)")
    options = parser.parse_args(arguments)
    if not is_small(options.reader):
        parser.error(f"{options.reader} is no small reader. Train one from the policy of the packaged player.")
    shutil.copytree(options.reader, options.out, dirs_exist_ok=True)
    halves = {name: value.astype(np.float16) for name, value in load_file(options.reader / WEIGHTS).items()}
    # Not `save_file`, whose file only its owner may read.
    (options.out / WEIGHTS).write_bytes(save(halves, metadata={"format": "pt"}))
    write_json(options.out / SHAPE, read_json(options.reader / SHAPE, "Train it again.") | {"dtype": "float16"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
