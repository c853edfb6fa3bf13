"""``python -m affinity``: shows a machine, plans a placement, checks it, runs a command in it."""

from __future__ import annotations

import sys

from affinity.cli.parser import main
from affinity.standard_streams import secure_standard_streams

if __name__ == "__main__":
    secure_standard_streams()
    sys.exit(main(sys.argv[1:]))
