"""The one copy of a data set in a node's memory, which its workers and its data pool map.

The process that starts the workers has read the data set to check the run. It writes it to a file
without a name, and the others map that. The file holds

- a header of int64 words: a magic number, the size of the description, the number of arrays, and
  for each array its begin and its size,
- the description: the data set as `pickle` writes it, without its arrays,
- the arrays, each at a page. Those in mapped files stay there: where is in the description.

It is the run's own file: only processes of the same user get its descriptor, from their parent or
by `knltrain.communication.shared_memory.descriptor_passing`.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import Dataset
from knltrain.errors import SegmentError

NAME: Final = "knltrain-data"
"""By which the kernel shows the memory, as in /proc/PID/smaps."""

_MAGIC: Final = int.from_bytes(b"knl-data", "little")
_HEADER_WORDS: Final = 3
_WORD_BYTES: Final = 8


def is_held(dataset: Dataset) -> bool:
    """Whether the pictures of a half lie in the memory of the process that has read them.

    Pictures in mapped files lie in the page cache, once for all processes; others are decoded.
    """
    return any(half.source.held_bytes for half in (dataset.train, dataset.test))


@final
class NodeData:
    """A data set's copy, as the process sees it that has made it, or passes it on.

    The memory vanishes with the last process that has it, however that one ends.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def copy_of(cls, dataset: Dataset, nodes: Sequence[int] = ()) -> NodeData:
        """Copy the arrays of a data set that are in memory, spread evenly over these NUMA nodes.

        Without any, pages come from the node of this thread. Raises SegmentError if there is no
        room.
        """
        from affinity import collapse, map_shared, place_mapping
        from knltrain.communication.shared_memory import anonymous_file

        huge = anonymous_file.HUGE_PAGE_BYTES
        arrays: list[pickle.PickleBuffer] = []
        written = io.BytesIO()
        _Pickler(written, protocol=5, buffer_callback=arrays.append).dump(dataset)
        description = written.getvalue()
        sizes = [array.raw().nbytes for array in arrays]
        header, begins, total = _laid_out(len(description), sizes)
        fd = anonymous_file.create("memfd", Path("/dev/shm"), total, NAME)
        try:
            memory = map_shared(fd, total, huge)
            if len(nodes) > 1:
                place_mapping(memory, "interleave", nodes)
            elif nodes:
                place_mapping(memory, "preferred", nodes)
            anonymous_file.reserve(fd, 0, total)
            memory[: header.nbytes] = header.tobytes()
            memory[header.nbytes : header.nbytes + len(description)] = description
            for array, begin, size in zip(arrays, begins, sizes, strict=True):
                memory[begin : begin + size] = array.raw()
            if total >= huge and len(nodes) < 2:  # which could put all on one of them
                collapse(memory)
            # Who inherits this one cannot write: the copy stays the same for all.
            readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(fd)
        return cls(readable)

    def dataset(self) -> Dataset:
        """The data set, whose arrays are views of the memory that cannot be written."""
        return held_dataset(self.fd)

    def close(self) -> None:
        """Close the file; the memory is freed when no process has it mapped."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def held_dataset(fd: int) -> Dataset:
    """The data set behind an inherited file descriptor; its arrays are views, not to be written.

    Raises SegmentError if it is none.
    """
    try:
        memory = memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))
    except (OSError, ValueError) as error:
        raise SegmentError(f"file descriptor {fd} is no data set: {error}") from None
    words = np.frombuffer(memory, np.int64, len(memory) // _WORD_BYTES)
    if len(words) < _HEADER_WORDS or words[0] != _MAGIC:
        raise SegmentError(
            f"file descriptor {fd} is no data set of knltrain's: expected one that the process "
            "that starts the workers has made and passed on"
        )
    description_bytes, arrays = int(words[1]), int(words[2])
    places = words[_HEADER_WORDS : _HEADER_WORDS + 2 * arrays].reshape(arrays, 2).tolist()
    begin = (_HEADER_WORDS + 2 * arrays) * _WORD_BYTES
    description = memory[begin : begin + description_bytes]
    parts = [memory[at : at + size] for at, size in places]
    found: Dataset = pickle.loads(description, buffers=parts)
    return found


@final
class _Pickler(pickle.Pickler):
    """Leaves all arrays out, those too that are not contiguous, and what threads keep."""

    def reducer_override(self, value: Any) -> Any:
        """An array that is not contiguous is written as its contiguous copy.

        One in a mapped file is mapped by the other process, too. Threads of another process have no
        memory yet.
        """
        from knltrain.data.mapped import array_at, place_of  # which workers need not

        if isinstance(value, threading.local):
            return threading.local, ()
        if isinstance(value, np.ndarray) and (place := place_of(value)) is not None:
            return array_at, place
        if isinstance(value, np.ndarray) and not value.flags.forc:
            return np.ascontiguousarray(value).__reduce_ex__(5)
        return NotImplemented


def _laid_out(
    description: int, sizes: Sequence[int]
) -> tuple[npt.NDArray[np.int64], list[int], int]:
    """The header, where each array begins, and the size of the file; all in bytes."""
    words = _HEADER_WORDS + 2 * len(sizes)
    begins, end = [], _pages(words * _WORD_BYTES + description)
    for size in sizes:
        begins.append(end)
        end += _pages(size)
    places = [number for pair in zip(begins, sizes, strict=True) for number in pair]
    return np.array([_MAGIC, description, len(sizes), *places], np.int64), begins, end


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
