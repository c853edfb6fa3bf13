"""What this machine does at best: a matrix product and a copy, by PyTorch."""

from __future__ import annotations

from typing import NamedTuple, final

from vectorized_ops.timing import mean_seconds

SGEMM_SIDE = 2048
COPIED_FLOATS = 1 << 25
_FLOAT_BYTES = 4
_ENOUGH_SECONDS, _TIMES = 0.01, 2


class Bounds(NamedTuple):
    """Operations of a matrix product, and bytes of a copy, read and written, each per second."""

    flops_per_second: float
    bytes_per_second: float


@final
class MachineBounds:
    """Measures the product of two 2048 x 2048 float32 matrices, and a copy of 128 MiB.

    PyTorch takes as many threads as it has been told, or `threads`.
    """

    def __init__(self, threads: int | None = None) -> None:
        import torch

        self._torch, self._threads = torch, threads
        matrix = torch.ones(SGEMM_SIDE, SGEMM_SIDE, dtype=torch.float32, device="cpu")
        self._left, self._right, self._out = matrix, matrix.clone(), matrix.clone()
        self._source = torch.ones(COPIED_FLOATS, dtype=torch.float32, device="cpu")
        self._target = torch.zeros_like(self._source)
        self.measure()

    def measure(self) -> Bounds:
        """The better of two tries each, now."""
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(self._threads or before)
        try:
            product = min(mean_seconds(self._product, _ENOUGH_SECONDS) for _ in range(_TIMES))
            copy = min(mean_seconds(self._copy, _ENOUGH_SECONDS) for _ in range(_TIMES))
        finally:
            self._torch.set_num_threads(before)
        return Bounds(2 * SGEMM_SIDE**3 / product, 2 * _FLOAT_BYTES * COPIED_FLOATS / copy)

    def _product(self) -> None:
        self._torch.mm(self._left, self._right, out=self._out)

    def _copy(self) -> None:
        self._target.copy_(self._source)
