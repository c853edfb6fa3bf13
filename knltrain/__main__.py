"""`python -m knltrain`: the same as the command `knltrain`."""

from __future__ import annotations

from knltrain.cli import main

if __name__ == "__main__":
    main()
