"""What a rank does in the guest: it takes memory and tells, as JSON, where its pages are.

rank.py heap MEBIBYTES               memory of its own, from the allocator
rank.py segments MEBIBYTES FOLDER    a memfd and a file in /dev/shm, which another rank fills
rank.py arenas MEBIBYTES             the arenas "weights" and "data" of policy split
rank.py beyond MEBIBYTES             memory bound to its nodes that they do not have
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from affinity import (
    MemoryPolicyError,
    Placement,
    allocate,
    allocate_in,
    judge,
    observed_binding,
    own_placement,
    place_mapping,
)
from affinity.process.residency import pages_by_node

MEBIBYTE = 1 << 20
PATIENCE_SECONDS = 120.0

Memory: TypeAlias = "bytearray | memoryview | mmap.mmap"

held: list[Memory] = []
"""What was taken, so that it is there when the proof is made."""


def mebibytes_by_node(memory: Memory) -> dict[int, float]:
    """Where the touched pages of `memory` are."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pages = pages_by_node(address, memoryview(memory).nbytes)
    return {node: count * mmap.PAGESIZE / MEBIBYTE for node, count in pages.items()}


def filled(memory: Memory) -> Memory:
    """Write into every page, from the first on."""
    view = memoryview(memory)
    view[:: mmap.PAGESIZE] = b"x" * len(range(0, view.nbytes, mmap.PAGESIZE))
    held.append(memory)
    return memory


def heap(size: int) -> dict[str, object]:
    return {"heap": mebibytes_by_node(filled(bytearray(size)))}


def arenas(size: int) -> dict[str, object]:
    memories = {name: filled(allocate_in(name, size).buffer) for name in ("weights", "data")}
    return {name: mebibytes_by_node(memory) for name, memory in memories.items()}


def beyond(size: int) -> dict[str, object]:
    try:
        allocate(size, "bind", place().memory.nodes)
    except MemoryPolicyError as error:
        return {"error": str(error)}
    return {}


def segments(size: int, folder: Path) -> dict[str, object]:
    """Put two segments in their place, let the next rank fill them, and look where they are."""
    own, paths = [], []
    for descriptor in (os.memfd_create("segment"), os.open(f"/dev/shm/{os.getpid()}", 0o102)):
        os.ftruncate(descriptor, size)
        own.append(mmap.mmap(descriptor, size))
        place_mapping(own[-1], place().memory.mode, place().memory.nodes)
        paths.append(f"/proc/{os.getpid()}/fd/{descriptor}")
    rank, ranks = place().rank, int(os.environ["RANKS"])
    say(folder / f"placed-{rank}", "\n".join(paths))
    for path in heard(folder / f"placed-{(rank + 1) % ranks}").splitlines():
        filled(mapped(path))
    say(folder / f"filled-{(rank + 1) % ranks}", "")
    heard(folder / f"filled-{rank}")
    for segment in own:
        assert bytes(segment[:: mmap.PAGESIZE]) == b"x" * (size // mmap.PAGESIZE)
    Path(f"/dev/shm/{os.getpid()}").unlink()
    # Nobody's descriptors may go before the others have opened them: all have, once all are full.
    for other in range(ranks):
        heard(folder / f"filled-{other}")
    return dict(zip(("memfd", "shm"), map(mebibytes_by_node, own), strict=True))


def mapped(path: str) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR)
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size)


def say(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    unseen = file.with_name(f".{file.name}")
    unseen.write_text(text)
    unseen.rename(file)


def heard(file: Path) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody wrote {file}")
        time.sleep(0.05)
    return file.read_text()


def place() -> Placement:
    found = own_placement()
    assert found is not None
    return found


def facts() -> Iterator[tuple[str, object]]:
    observed = observed_binding()
    yield "rank", place().rank
    yield "cpus", sorted(os.sched_getaffinity(0))
    yield "problems", judge(place(), observed)


def main(deed: str, mebibytes: str, *folder: str) -> None:
    size = int(mebibytes) * MEBIBYTE
    found = globals()[deed](size, *map(Path, folder))
    # One write each, so that the lines of several ranks stay whole.
    sys.stdout.write(json.dumps({**found, **dict(facts())}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
