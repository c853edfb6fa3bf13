from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from affinity import Arena, MemoryPlan
from affinity.process.memory_policy import memory_policy
from knltrain.communication.shared_memory import anonymous_file
from knltrain.communication.shared_memory.anonymous_file import FileKind
from knltrain.errors import SegmentError
from knltrain.exchange.transports import segment as segment_module
from knltrain.exchange.transports.layout import Layout
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment

REPOSITORY = Path(__file__).parents[4]
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
SMALL_BYTES = 256 * 1024

HOLDER_SOURCE = """
import sys, time
from pathlib import Path
from knltrain.exchange.transports.segment import Segment
segment = Segment.create(10_000, 2, directory=Path(sys.argv[1]))
segment.claim(0)
segment.claim(1)
print("held", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 256 KiB, as a container's /dev/shm may be; needs the right to mount."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def free_bytes(directory: Path) -> int:
    system = os.statvfs(directory)
    return system.f_bavail * system.f_frsize


@pytest.mark.parametrize("kind", ["shm", "memfd"])
def test_attached_segment_shares_every_vector_and_word(kind: FileKind) -> None:
    created = Segment.create(3000, 3, kind)
    attached = Segment.attach(os.dup(created.fd))
    assert (attached.size, attached.workers) == (3000, 3)
    created.locals_[:] = np.arange(9000, dtype=np.float32).reshape(3, 3000)
    created.center[:] = -1
    created.sequences[2] = 5
    created.steps_done[1] = 7
    created.sums(1)[:] = 0.5
    assert np.array_equal(attached.locals_, created.locals_)
    assert np.all(attached.center == -1)
    assert attached.sequences.tolist() == [0, 0, 5]
    assert attached.steps_done.tolist() == [0, 7, 0]
    assert np.all(attached.sums(1) == 0.5)
    assert not attached.sums(0).any()
    assert not attached.sums(2).any()
    created.close()
    attached.close()


def test_vectors_begin_at_pages() -> None:
    segment = Segment.create(3000, 2)
    rows = [*segment.locals_, segment.center]
    assert all(row.ctypes.data % mmap.PAGESIZE == 0 for row in rows)
    assert all(row.flags.c_contiguous for row in rows)
    segment.close()


def test_space_that_nobody_uses_stays_zero() -> None:
    segment = Segment.create(3000, 1)
    transport = NodeShared(segment, 0)
    transport.start_from(np.ones(3000, np.float32))
    transport.all_sum(np.ones(8))
    layout = segment.layout
    found = os.pread(segment.fd, layout.total_bytes, 0)
    begins = [layout.row_offset(rank) for rank in range(2)]
    assert all(not any(found[b + 4 * 3000 : b + layout.row_bytes]) for b in begins)
    assert not any(found[layout.state_word(1) * 8 : layout.header_bytes])
    transport.close()


def test_has_no_name_and_cannot_get_one() -> None:
    segment = Segment.create(3000, 2)
    assert os.fstat(segment.fd).st_nlink == 0
    libc = ctypes.CDLL(None, use_errno=True)
    name = Path(f"/dev/shm/knltrain-test-{os.getpid()}")
    here, there = f"/proc/self/fd/{segment.fd}".encode(), str(name).encode()
    linked = libc.linkat(AT_FDCWD, here, AT_FDCWD, there, AT_SYMLINK_FOLLOW)
    name.unlink(missing_ok=True)
    assert (linked, ctypes.get_errno()) == (-1, errno.ENOENT)
    segment.close()


def test_nothing_is_left_of_a_segment_whose_processes_were_killed(
    small_file_system: Path,
) -> None:
    before = free_bytes(small_file_system)
    command = [sys.executable, "-c", HOLDER_SOURCE, str(small_file_system)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert free_bytes(small_file_system) <= before - 3 * 40_000
        assert list(small_file_system.iterdir()) == []
        child.send_signal(signal.SIGKILL)
    assert free_bytes(small_file_system) == before


def test_too_small_file_system_is_refused_before_anything_is_written(
    small_file_system: Path,
) -> None:
    before = free_bytes(small_file_system)
    needed = Layout(40_000, 2).total_bytes
    with pytest.raises(SegmentError, match=f"need {needed} bytes .* has {before} bytes free"):
        Segment.create(40_000, 2, directory=small_file_system)
    assert free_bytes(small_file_system) == before


def test_room_taken_since_creation_is_told_instead_of_a_bus_error(small_file_system: Path) -> None:
    segment = Segment.create(20_000, 2, directory=small_file_system)
    (small_file_system / "other").write_bytes(bytes(free_bytes(small_file_system) - 8192))
    with pytest.raises(SegmentError, match="No space left on device"):
        segment.claim(0)
    segment.close()


def test_reservation_of_all_workers_takes_exactly_the_segment(small_file_system: Path) -> None:
    before = free_bytes(small_file_system)
    segment = Segment.create(9001, 3, directory=small_file_system)
    for rank in range(3):
        segment.claim(rank)
    assert before - free_bytes(small_file_system) == segment.layout.total_bytes
    segment.close()
    assert free_bytes(small_file_system) == before


def test_closed_descriptor_is_no_segment() -> None:
    fd = os.dup(0)
    os.close(fd)
    with pytest.raises(SegmentError, match=f"descriptor {fd} is no segment: Bad file descriptor"):
        Segment.attach(fd)


def test_pipe_is_no_segment() -> None:
    read_end, write_end = os.pipe()
    with pytest.raises(SegmentError, match="is no knltrain segment"):
        Segment.attach(read_end)
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize("content", [b"", b"knltrain", b"x" * 10_000])
def test_another_file_is_no_segment(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    with file.open("r+b") as other, pytest.raises(SegmentError, match="is no knltrain segment"):
        Segment.attach(other.fileno())


def test_other_layout_version_is_refused() -> None:
    segment = Segment.create(100, 1)
    segment.words[1] = 77
    with pytest.raises(SegmentError, match="layout version 77"):
        Segment.attach(segment.fd)
    segment.close()


@pytest.mark.parametrize("word, value", [(2, 0), (2, 5), (3, 10**6), (3, -1), (4, 0)])
def test_header_that_does_not_fit_the_file_is_refused(word: int, value: int) -> None:
    segment = Segment.create(100, 1)
    segment.words[word] = value
    with pytest.raises(SegmentError, match="cut or overwritten"):
        Segment.attach(segment.fd)
    segment.close()


def test_truncated_segment_is_refused() -> None:
    segment = Segment.create(100_000, 1)
    os.ftruncate(segment.fd, 8192)
    with pytest.raises(SegmentError, match="the file has 8192 bytes"):
        Segment.attach(segment.fd)
    segment.close()


def test_first_abort_code_stands() -> None:
    segment = Segment.create(10, 1)
    segment.abort(130)
    segment.abort(1)
    assert segment.abort_word.tolist() == [130]
    with pytest.raises(ValueError, match="abort code 0"):
        segment.abort(0)
    segment.close()


def test_closing_twice_is_harmless() -> None:
    segment = Segment.create(10, 1)
    segment.close()
    segment.close()
    assert segment.center.size == 0


def policy_of(row: np.ndarray) -> str:
    """The kernel's memory policy of the page that a vector begins in."""
    return str(memory_policy(row.ctypes.data))


def test_placed_rows_and_stripes_carry_the_policy_into_every_process() -> None:
    created = Segment.create(600_000, 2)
    memory = MemoryPlan(policy="spill", mode="preferred", nodes=(0,))
    assert created.place(1, memory) == ()
    assert policy_of(created.locals_[0]) == "default"
    assert policy_of(created.locals_[1]) == "preferred:0"
    middle = created.layout.stripe(1).start
    assert policy_of(created.center) == "default"
    assert policy_of(created.center[middle:]) == "preferred:0"
    attached = Segment.attach(os.dup(created.fd))
    attached.claim(0)
    attached.claim(1)
    assert policy_of(attached.locals_[1]) == "preferred:0"
    created.close()
    attached.close()


def test_vectors_are_in_the_arena_of_the_model_where_there_are_arenas() -> None:
    segment = Segment.create(5000, 1)
    arenas = (Arena("data", "preferred", (0,)), Arena("model", "bind", (0,)))
    segment.place(0, MemoryPlan(policy="split", mode="preferred", nodes=(0,), arenas=arenas))
    assert policy_of(segment.locals_[0]) == "bind:0"
    segment.close()


@pytest.mark.parametrize(("size", "huge"), [(9 * 2**20, 2), (431_080, 1)])
def test_whole_huge_pages_of_a_stripe_are_collapsed_with_the_local(
    monkeypatch: pytest.MonkeyPatch, size: int, huge: int
) -> None:
    collapsed: list[memoryview] = []
    monkeypatch.setattr(segment_module, "collapse", collapsed.append)
    created = Segment.create(size, 2, "memfd")
    created.claim(1)
    assert len(collapsed) == huge
    layout = created.layout
    assert collapsed[0].nbytes == layout.row_bytes
    if huge == 2:
        own = layout.stripe(1)
        assert collapsed[1].nbytes == (own.stop - own.start) * 4 // 2**21 * 2**21
    collapsed.clear()
    created.close()


def test_strict_place_on_a_node_that_is_not_there_is_an_error_that_names_the_worker() -> None:
    segment = Segment.create(5000, 2)
    memory = MemoryPlan(policy="strict", mode="bind", nodes=(77,))
    with pytest.raises(SegmentError, match=r"shared memory of worker 1: .*node 77"):
        segment.place(1, memory)
    segment.close()


POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


@pytest.fixture
def huge_pages(set_aside: Callable[[Path, int], None]) -> int:
    """How many huge pages of 2 MiB can be had, at least eight."""
    set_aside(POOL, 8)
    free, promised = (
        int((POOL / name).read_text()) for name in ("free_hugepages", "resv_hugepages")
    )
    return free - promised


def test_pages_that_are_promised_to_a_segment_are_not_free_for_another(huge_pages: int) -> None:
    size = (huge_pages - 1) // 2 * 2**19  # one worker: header, local, center
    first = Segment.create(size, 1, "hugetlb")
    with pytest.raises(SegmentError, match=r"the pool of huge pages has \d+ bytes free"):
        Segment.create(size, 1, "hugetlb")
    first.close()


def test_no_room_left_names_what_the_segment_is_made_of(huge_pages: int) -> None:
    created = Segment.create(1000, 1, "hugetlb")
    with pytest.raises(SegmentError, match="or enlarge the pool of huge pages"):
        anonymous_file.reserve(created.fd, 0, 2**50)
    created.close()


def test_hugetlb_segment_lies_in_huge_pages(huge_pages: int) -> None:
    created = Segment.create(431_080, 2, "hugetlb")
    attached = Segment.attach(os.dup(created.fd))
    for rank in range(2):
        assert created.place(rank, MemoryPlan(mode="preferred", nodes=(0,))) == ()
        attached.claim(rank)
    attached.locals_[1][:] = 3
    assert (created.locals_[1] == 3).all()
    start = f"{created.words.ctypes.data:x}-"
    smaps = Path("/proc/self/smaps").read_text().splitlines()
    first = next(i for i, line in enumerate(smaps) if line.startswith(start))
    assert "KernelPageSize:     2048 kB" in smaps[first : first + 5]
    created.close()
    attached.close()


@pytest.mark.usefixtures("pools_held")
def test_empty_pool_of_huge_pages_is_named_with_the_ways_out() -> None:
    free = POOL / "free_hugepages"
    if not free.exists() or int(free.read_text()):
        pytest.skip("has huge pages, or a kernel without them")
    with pytest.raises(SegmentError, match=r"pool of huge pages has 0 bytes free.*nr_hugepages"):
        Segment.create(1000, 2, "hugetlb")
