"""One-sided work on a Soft Memory Box: `python -m knltrain.bench.exchange.box_member`.

A handle is a box's inherited descriptor and the key of the buffer that all members share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from knltrain import __version__
from knltrain.bench.exchange.member import Answers, HeldVectors, Member, check_values, serve_apart
from knltrain.communication.memory_box.local import SoftMemoryBox


@final
class _Buffers(HeldVectors):
    """A buffer that all members share, one of this process alone, and a vector outside the box."""

    def __init__(self, size: int, fd: int, key: int) -> None:
        self._box = SoftMemoryBox.attach(fd)
        self._shared, self._own = self._box.open(key), self._box.create_buffer(size)
        self._vector = np.zeros(size, np.float32)
        self.operations = {"read_write": self._read_write, "accumulate": self._accumulate}

    def check(self) -> None:
        """Check that written values can be read again; does not wait for the sums of others."""
        self._vector.fill(1)
        self._own.write(self._vector)
        self._vector.fill(0)
        self._own.read(self._vector)
        check_values("write and read", [self._vector], 1)
        self._vector.fill(0)
        self._own.write(self._vector)

    def close(self) -> None:
        """Free this process's buffer, and detach from the box."""
        self._own.free()
        del self._shared, self._own
        self._box.close()

    def _read_write(self) -> None:
        """Half of the bytes are read, from the shared buffer, half written, to the private one."""
        self._shared.read(self._vector)
        self._own.write(self._vector)

    def _accumulate(self) -> None:
        self._shared.accumulate(self._own)


@final
class BoxMember(Member):
    """A process that works on boxes."""

    version = f"knltrain {__version__}"

    def hold(self, sizes: Sequence[int], handles: Sequence[tuple[int, int]]) -> HeldVectors:
        """Open the one box."""
        return _Buffers(sizes[0], *handles[0])


if __name__ == "__main__":
    member = BoxMember()
    serve_apart(member.version, Answers(member))
