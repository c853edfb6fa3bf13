"""The watch over what tests leave behind, itself watched from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

LEAKS = """
import pathlib, subprocess
from knltrain.exchange.transports.segment import Segment
KEPT = []
def test_leaks():
    KEPT.append(Segment.create(100, 2))
    subprocess.run(["sh", "-c", "sleep 600 &"])
    pathlib.Path("/dev/shm/{name}").touch()
def test_tidy():
    Segment.create(100, 2).close()
    subprocess.run(["true"])
"""


def test_a_test_that_leaves_anything_behind_fails_and_only_that(tmp_path: Path) -> None:
    file = Path("/dev/shm") / f"left-by-test-{os.getpid()}"
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in ("conftest.py", "forked_python.py"):
        shutil.copy(ROOT / "tests" / name, folder)
    (folder / "test_leaks.py").write_text(LEAKS.replace("{name}", file.name))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command.append("--import-mode=importlib")
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    file.unlink()
    assert "2 passed, 1 error" in done.stdout
    lines = done.stdout.splitlines()
    [verdict] = [line for line in lines if line.startswith("E ") and "left behind" in line]
    assert "(sleep 600)" in verdict
    assert file.name in verdict
    assert "/dev/shm/#" in verdict
