"""``python -m affinity``: look at a machine, plan on it, check it, run on it."""

from __future__ import annotations

import sys

from affinity.cli.words import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
