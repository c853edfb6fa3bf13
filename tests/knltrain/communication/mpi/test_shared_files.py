from __future__ import annotations

import mmap
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from knltrain.communication.mpi import shared_files
from knltrain.communication.mpi.shared_files import SharedFiles


@pytest.fixture
def new_file() -> Iterator[Callable[[], Path]]:
    """Makes a file like Intel MPI's in shared memory."""
    made: list[Path] = []

    def make() -> Path:
        path = shared_files.FOLDER / f"Intel_MPI_{secrets.token_hex(8)}"
        path.write_bytes(bytes(mmap.PAGESIZE))
        made.append(path)
        return path

    yield make
    for path in made:
        path.unlink(missing_ok=True)


def test_files_that_this_process_has_mapped_lose_their_names_and_no_others(new_file):
    files = SharedFiles()
    ours, theirs = new_file(), new_file()
    with ours.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        files.remove_mapped()
        memory[0] = 1
    assert not ours.exists()
    assert theirs.exists()


def test_new_files_that_nobody_has_mapped_are_removed(new_file):
    before = new_file()
    files = SharedFiles()
    abandoned = new_file()
    files.remove_abandoned()
    assert [path.exists() for path in (before, abandoned)] == [True, False]


def test_a_file_that_is_about_to_be_mapped_stays(new_file, monkeypatch):
    files = SharedFiles()
    path = new_file()
    with path.open("r+b") as file, ExitStack() as mapping:

        def meanwhile(seconds: float) -> None:
            assert seconds > 0
            mapping.enter_context(mmap.mmap(file.fileno(), 0))

        monkeypatch.setattr(time, "sleep", meanwhile)
        files.remove_abandoned()
    assert path.exists()


def test_a_file_that_another_process_has_mapped_stays(new_file):
    files = SharedFiles()
    path = new_file()
    command = (
        "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0);"
        "print('mapped', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", command, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mapped\n"
        files.remove_abandoned()
        assert path.exists()
    files.remove_abandoned()
    assert not path.exists()
