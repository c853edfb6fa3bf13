"""Real folders, whose makers end in every way; that no process stays, tests/conftest.py sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from affinity.process.other_process import children
from knltrain.errors import RunFolderError
from knltrain.launch.temporary_folder import temporary_folder

ROOT = Path(__file__).parents[3]

MAKER = """
import subprocess, sys
from knltrain.launch.temporary_folder import temporary_folder

with temporary_folder() as folder:
    (folder.path / "of the maker").touch()
    command = [sys.executable, "-c", sys.argv[1], str(folder.path)]
    writer = subprocess.Popen(command, pass_fds=(folder.fd,), start_new_session=True)
    print(writer.pid, flush=True)
    writer.wait()
"""
WRITER = """
import sys, time
from pathlib import Path

for number in range(10**6):
    (Path(sys.argv[1]) / f"{number}").touch()
    time.sleep(0.001)
"""


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process and those that it starts keep temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def _wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120  # kernels may have to be compiled first
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


@pytest.mark.parametrize("error", [None, KeyError])
def test_folder_is_one_s_own_and_gone_at_the_end(
    error: type[Exception] | None, temporary_files: Path
) -> None:
    seen: list[Path] = []

    def use() -> None:
        with temporary_folder() as folder:
            seen.append(folder.path)
            assert folder.path.stat().st_mode & 0o777 == 0o700
            (folder.path / "inside").mkdir()
            (folder.path / "inside/file").write_text("text")
            if error is not None:
                raise error

    if error is None:
        use()
    else:
        with pytest.raises(error):
            use()
    assert seen[0].parent == temporary_files
    assert not list(temporary_files.iterdir())


def test_folder_that_cannot_be_made_is_told_with_the_way_out(
    temporary_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary_files / "absent"))
    with (
        pytest.raises(RunFolderError, match=r"'.*/absent/.*': No such file .*: set TMPDIR to"),
        temporary_folder(),
    ):
        pytest.fail("there is no folder")


@pytest.fixture
def maker(temporary_files: Path) -> Iterator[subprocess.Popen[str]]:
    """Has made a folder and started a writer, whose process id it prints."""
    command = [sys.executable, "-c", MAKER, WRITER]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        process.kill()


def test_folder_of_a_killed_group_goes_when_its_last_writer_has_ended(
    maker: subprocess.Popen[str], temporary_files: Path
) -> None:
    assert maker.stdout is not None
    writer = int(maker.stdout.readline())
    [folder] = temporary_files.iterdir()
    _wait((folder / "10").exists)
    os.killpg(maker.pid, signal.SIGKILL)
    assert maker.wait() == -signal.SIGKILL
    so_far = len(list(folder.iterdir()))
    _wait(lambda: len(list(folder.iterdir())) > so_far + 100)  # the writer still lives
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)  # inherited, see tests/conftest.py
    _wait(lambda: not list(temporary_files.iterdir()))


METHODS = "methods --methods sync_easgd --epochs 40 --workers 2 --threads 1"
"""Each of its two runs lasts for seconds, or a busy machine would find it at an end."""
STEP = "step --peers torch --batch 8 --threads 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "moment", "workers"),
    [
        (STEP, "job.json", 0),
        (METHODS, "*/config.toml", 0),
        (METHODS, "*/worker-0.log", 0),
        (METHODS, "*/metrics-0.jsonl", 1),
        pytest.param(METHODS, "*/metrics-1.jsonl", 2, marks=pytest.mark.long),
    ],
)
def test_killed_bench_leaves_nothing(
    bench: str, moment: str, workers: int, temporary_files: Path
) -> None:
    command = [sys.executable, "-m", "knltrain", "bench", *bench.split()]
    with subprocess.Popen(command) as process:
        try:
            _wait(lambda: _there(temporary_files, moment) or process.poll() is not None)
            if workers:
                assert _holders_of_the_folder(process.pid) == workers
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL, "it ended too early"
    _wait(lambda: not list(temporary_files.iterdir()))


def _there(temporary_files: Path, moment: str) -> bool:
    with suppress(FileNotFoundError):  # a folder of one run, gone while it is looked through
        return any(temporary_files.glob(f"*/{moment}"))
    return False


def _holders_of_the_folder(maker: int) -> int:
    """How many children of its maker hold the pipe that the remover waits at."""
    found = children(maker)
    removers = [pid for pid in found if b"temporary_folder" in _command(pid)]
    [pipe] = {Path(f"/proc/{pid}/fd/0").readlink() for pid in removers}
    holders = [pid for pid in found if pipe in _open_files(pid)]
    return len(set(holders) - set(removers))


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _open_files(pid: int) -> set[Path]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(link.readlink())
    return found
