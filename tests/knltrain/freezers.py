"""Control groups of processes that can be frozen, for tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_FILES = {
    "version 1": (Path("/sys/fs/cgroup/freezer"), "freezer.state", "FROZEN", "THAWED"),
    "version 2": (Path("/sys/fs/cgroup/unified"), "cgroup.freeze", "1", "0"),
    "version 2 alone": (Path("/sys/fs/cgroup"), "cgroup.freeze", "1", "0"),
}
VERSIONS = tuple(_FILES)


@dataclass(frozen=True)
class Freezer:
    """A control group with the file that freezes it, and the words for that."""

    folder: Path
    file: Path
    on: str
    off: str

    def take_in(self, process: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(process))

    def freeze(self) -> None:
        self.file.write_text(self.on)

    def thaw(self) -> None:
        self.file.write_text(self.off)


@contextmanager
def freezer(version: str) -> Iterator[Freezer]:
    """A new group, which is thawed and gone in the end; skips a test where none can be."""
    mount, name, on, off = _FILES[version]
    if not (mount / "cgroup.procs").exists() or not os.access(mount, os.W_OK):
        pytest.skip("no control group may be made here")
    folder = mount / f"knltrain-test-{os.getpid()}"
    folder.mkdir()
    made = Freezer(folder, folder / name, on, off)
    try:
        if not made.file.exists():
            pytest.skip("the control groups have no freezer of this version")
        yield made
    finally:
        with suppress(OSError):
            made.thaw()
        deadline = time.monotonic() + 60
        while (folder / "cgroup.procs").read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        folder.rmdir()
