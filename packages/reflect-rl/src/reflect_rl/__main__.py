"""`python -m reflect_rl` is `reflect-rl`; launchers start it as `-m reflect_rl`."""

import sys
from pathlib import Path

# `-m` puts the current folder first. As a run folder may lie beside somebody else's files, nothing is imported from
# there unless the user names it (`cli.arguments`).
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] in ([""], [str(Path.cwd())]):
    del sys.path[0]

from reflect_rl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
