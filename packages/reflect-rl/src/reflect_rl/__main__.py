"""`python -m reflect_rl` is `reflect-rl`; launchers start it as `-m reflect_rl`."""

import sys

from reflect_rl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
