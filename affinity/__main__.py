"""``python -m affinity``: look at a machine, plan on it, check it, run on it."""

from __future__ import annotations

import sys

from affinity.cli.parser import main
from affinity.standard_streams import secure_standard_streams

if __name__ == "__main__":
    secure_standard_streams()
    sys.exit(main(sys.argv[1:]))
