"""oneCCL as a contestant: `python -m knltrain.bench.exchange.oneccl_member RANK WORKERS`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.bench.exchange.all_reduce import ReducedVectors
from knltrain.bench.exchange.member import Answers, HeldVectors, Member, serve_apart
from knltrain.communication.oneccl import Communicator, installed, unique_id

_SHARED_MEMORY = Path("/dev/shm")


@final
class OneCCLMember(Member):
    """A rank of a communicator."""

    def __init__(self, rank: int, workers: int) -> None:
        self._rank, self._workers = rank, workers
        found = installed()
        self.version = f"oneCCL {found[0] if found else '?'}"
        self._communicator: Communicator | None = None

    def token(self) -> str:
        """Return the communicator's id."""
        return unique_id().hex()

    def join(self, token: str) -> None:
        """Find the others, and unlink the names of shared memory, so that none is left behind."""
        self._communicator = Communicator(self._rank, self._workers, bytes.fromhex(token))
        _reduce(self._communicator, np.zeros(1, np.float32))
        for file in _SHARED_MEMORY.glob(f"{os.getpid()}:*"):
            file.unlink()

    def hold(self, sizes: Sequence[int], handles: Sequence[Any]) -> HeldVectors:  # noqa: ARG002
        """Allocate vectors of these sizes."""
        communicator = self._communicator
        assert communicator is not None
        vectors = [np.zeros(size, np.float32) for size in sizes]
        reduce = [partial(_reduce, communicator, vector) for vector in vectors]
        meet = partial(_reduce, communicator, np.zeros(1, np.float32))
        return ReducedVectors(self._rank, self._workers, vectors, reduce, meet)


def _reduce(communicator: Communicator, vector: npt.NDArray[np.float32]) -> None:
    communicator.all_reduce(vector.ctypes.data, vector.size, "float32")


if __name__ == "__main__":
    member = OneCCLMember(int(sys.argv[1]), int(sys.argv[2]))
    serve_apart(member.version, Answers(member))
