"""Every test leaves the machine as it found it: no process, no shared memory.

``scripts/test`` runs tests side by side, in processes of pytest-xdist. Those of a file, or of a
folder that starts something for all its files, stay together.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from .forked_python import SERVERS

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

PR_SET_CHILD_SUBREAPER = 36
TABLE_ROW = "table row"
"""A property by which a test records what the summary prints."""

PATIENCE_SECONDS = 2.0
"""A process that was just killed needs a moment until it is gone."""

PATIENCE_WITH_OTHERS_SECONDS = 120.0
"""A named file in shared memory may be that of a test beside this one, needed to its end."""

SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ

STARTED_ONCE = ("tests/in_slurm", "tests/knltrain/torch_distributed")
"""Folders whose fixtures start daemons or groups of processes, once for a session."""

EACH_BY_ITSELF = (
    "tests/knltrain/interchange/test_zoo.py",
    "tests/knltrain/torch_distributed/test_generic_suite.py",
)
"""Files whose tests share nothing and take minutes."""

LONGEST_SECONDS = 3600
"""Explorations of every order of some steps take minutes, a quarter of an hour on slow cores."""

LONGEST = (
    "tests/in_hbm_vm",
    "tests/knltrain/torch_distributed",
    "tests/vectorized_ops/numba/test_winograd_convolution",
    "tests/knltrain/bench/nodes",
    "tests/knltrain/launch",
)
"""What begins first where tests run side by side, so that nobody waits for it at the end."""

SHARED_MEMORY = Path("/dev/shm")
SEGMENTS = ("/dev/shm/#", "/memfd:knltrain")
"""How the names of files without a name begin that are shared memory of ours."""

_held: list[set[str]] = []
"""What the last look at this process's memory found; empty after a fixture that lives on began."""

IN_SHARED_MEMORY = f"files in {SHARED_MEMORY}"
HUGE_PAGE_POOLS = Path("/sys/kernel/mm/hugepages")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out whole files, or folders, in the order in which they were collected."""
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types.
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file in EACH_BY_ITSELF:
                return nodeid
            return next((it for it in STARTED_ONCE if file.startswith(it)), file)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests have an hour; what takes longest comes first where tests run side by side."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONGEST_SECONDS))
    if SIDE_BY_SIDE:
        ranks = {folder: rank for rank, folder in enumerate(LONGEST)}
        items.sort(
            key=lambda item: min(
                (rank for folder, rank in ranks.items() if item.nodeid.startswith(folder)),
                default=len(ranks),
            )
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the rows of tables that tests have recorded."""
    reports = [report for each in terminalreporter.stats.values() for report in each]
    found = {pair for report in reports for pair in getattr(report, "user_properties", ())}
    rows = sorted(row for key, row in found if key == TABLE_ROW)
    if rows:
        terminalreporter.section("found")
        terminalreporter.write_line("\n".join(rows))


@pytest.fixture(scope="session", autouse=True)
def orphans_become_children_of_the_tests() -> None:
    """A worker whose parent was killed is inherited by this process, not by init, and so seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.fixture
def pools_held() -> Iterator[None]:
    """The machine's pools of huge pages, which tests in other processes leave alone meanwhile."""
    if not HUGE_PAGE_POOLS.exists():
        pytest.skip("this kernel has no huge pages")
    lock = os.open(HUGE_PAGE_POOLS, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
    os.close(lock)


@pytest.fixture
def set_aside(pools_held: None) -> Iterator[Callable[[Path, int], None]]:
    """A function that gives a pool (its folder) so many huge pages more, or skips the test."""
    before: dict[Path, str] = {}

    def add(pool: Path, pages: int) -> None:
        count = pool / "nr_hugepages"
        try:
            before[count] = count.read_text(encoding="utf-8")
            wanted = int(before[count]) + pages
            count.write_text(str(wanted), encoding="utf-8")
            if int(count.read_text(encoding="utf-8")) < wanted:
                pytest.skip(f"this machine has no {pages} huge pages to set aside")
        except OSError as error:
            pytest.skip(f"no huge pages may be set aside here: {error}")

    yield add
    for count, text in before.items():
        with suppress(OSError):
            count.write_text(text, encoding="utf-8")


def pytest_collection_finish() -> None:
    """Spare the collector all that is loaded and collected: half a million objects, each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> None:
    """What a fixture of many tests maps is not left behind by the next of them."""
    if fixturedef.scope != "function":
        _held.clear()


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test after which there is a process, a file in /dev/shm or a segment that it made."""
    processes, files = _children(), _files()
    segments = _held[0] if _held else _mapped_segments()
    yield
    (request.node.funcargs or {}).clear()  # which live longer than the test
    left = _left_after_a_while(
        {
            "processes": lambda: _living_children(processes),
            IN_SHARED_MEMORY: lambda: _own_files(_files() - files),
            "shared memory of this process": lambda: _segments_now() - segments,
        }
    )
    for process in left.get("processes", ()):
        os.kill(int(process.split()[0]), signal.SIGKILL)
    if left:
        found = "; ".join(f"{what}: {', '.join(sorted(it))}" for what, it in left.items())
        pytest.fail(f"the test left behind {found}")


def _left_after_a_while(looks: dict[str, Callable[[], set[str]]]) -> dict[str, set[str]]:
    began = time.monotonic()
    while left := {what: found for what, look in looks.items() if (found := look())}:
        may_be_theirs = SIDE_BY_SIDE and set(left) == {IN_SHARED_MEMORY}
        peer_wait = PATIENCE_WITH_OTHERS_SECONDS if may_be_theirs else PATIENCE_SECONDS
        if time.monotonic() > began + peer_wait:
            break
        if "processes" not in left:  # which no collector ends
            gc.collect()
        time.sleep(0.02)
    return left


def _living_children(before: set[int]) -> set[str]:
    """Children that were not there `before`; the dead among them are reaped."""
    living = set()
    for pid in _children() - before:
        state, command = _state_and_command(pid)
        if state == "Z":
            os.waitpid(pid, os.WNOHANG)
        elif state and pid not in SERVERS:
            living.add(f"{pid} ({command})")
    return living


def _children() -> set[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return set()
    parent = str(os.getpid())
    return {pid for pid in _pids() if (_stat(pid) or ["", ""])[1] == parent}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (every test)


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the state on; None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 (as above)
            return file.read().rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _state_and_command(pid: int) -> tuple[str, str]:
    fields = _stat(pid)
    if fields is None:
        return "", ""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return fields[0], command.replace(b"\0", b" ").decode(errors="replace").strip()


def _files() -> set[str]:
    return {path.name for path in SHARED_MEMORY.iterdir()}


def _own_files(names: set[str]) -> set[str]:
    """Those of `names` that no process outside these tests holds open: others use /dev/shm too."""
    if not names:
        return set()
    own = {os.getpid(), *_children()}
    foreign = {path for pid in _pids() if pid not in own for path in _open_files(pid)}
    return {name for name in names if str(SHARED_MEMORY / name) not in foreign}


def _open_files(pid: int) -> set[str]:
    paths = set()
    with suppress(OSError):
        for link in list(Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(FileNotFoundError):  # closed meanwhile, as the folder's own always is
                paths.add(str(link.readlink()))
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            paths.update(line.split(maxsplit=5)[5:])
    return paths


def _segments_now() -> set[str]:
    """Those of `_mapped_segments`, which the next test need not look for again."""
    _held[:] = [_mapped_segments()]
    return _held[0]


def _mapped_segments() -> set[str]:
    """Nameless shared memory that this process still has open or mapped."""
    held = set()
    for link in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # closed meanwhile, as the folder's own always is
            path = str(link.readlink())
            if path.startswith(SEGMENTS):
                held.add(f"{path} {link.stat().st_ino}")
    maps = Path("/proc/self/maps").read_bytes()
    if any(begin.encode() in maps for begin in SEGMENTS):
        for line in maps.decode(errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(SEGMENTS):
                held.add(f"{fields[5]} {fields[4]}")
    return held
