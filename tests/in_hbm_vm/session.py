"""Runs commands one after another in the guest, and prints a line of JSON about each.

session.py '{"show": ["python", "-m", "affinity", "show"], ...}'
"""

from __future__ import annotations

import json
import subprocess
import sys


def main(commands: dict[str, list[str]]) -> None:
    for name, words in commands.items():
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        print(json.dumps([name, done.returncode, done.stdout, done.stderr]), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
