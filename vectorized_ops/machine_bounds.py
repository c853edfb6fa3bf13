"""What this machine does at best: a matrix product and a copy, by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

from vectorized_ops.timing import mean_seconds

SIDE, LEAST_SIDE = 2048, 1024
COPIED_FLOATS, LEAST_COPIED_FLOATS = 1 << 25, 1 << 22
_FLOAT_BYTES = 4
_ENOUGH_SECONDS, _TIMES = 0.01, 2


class Bounds(NamedTuple):
    """Operations of a matrix product, and bytes of a copy, read and written, each per second."""

    flops_per_second: float
    bytes_per_second: float


@final
class MachineBounds:
    """Measures the product of two 2048 x 2048 matrices, and a copy of 128 MiB.

    Matrices are float32, or of another `precision`, such as bfloat16. PyTorch takes as many threads
    as it has been told, or `threads`. Where so many `processes` measure at once, each copies its
    share of 128 MiB, but 16 MiB at least, and multiplies matrices of 1024 x 1024 if they are more
    than four.
    """

    def __init__(
        self, threads: int | None = None, processes: int = 1, precision: str = "float32"
    ) -> None:
        import torch

        self._torch, self._threads = torch, threads
        self._side = SIDE if processes <= 4 else LEAST_SIDE
        kind = getattr(torch, precision)
        matrix = torch.ones(self._side, self._side, dtype=kind, device="cpu")
        self._left, self._right, self._out = matrix, matrix.clone(), matrix.clone()
        self._floats = max(COPIED_FLOATS // processes, LEAST_COPIED_FLOATS)
        self._source = torch.ones(self._floats, dtype=torch.float32, device="cpu")
        self._target = torch.zeros_like(self._source)
        self.measure()

    def measure(self) -> Bounds:
        """The better of two tries each, now."""
        return Bounds(
            max(self.flops_per_second(_ENOUGH_SECONDS) for _ in range(_TIMES)),
            max(self.bytes_per_second(_ENOUGH_SECONDS) for _ in range(_TIMES)),
        )

    def flops_per_second(self, seconds: float) -> float:
        """The rate of products over so many seconds."""
        return 2 * self._side**3 / self._seconds_of(self._product, seconds)

    def bytes_per_second(self, seconds: float) -> float:
        """The rate of copies over so many seconds."""
        return 2 * _FLOAT_BYTES * self._floats / self._seconds_of(self._copy, seconds)

    def _seconds_of(self, run: Callable[[], object], seconds: float) -> float:
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(self._threads or before)
        try:
            return mean_seconds(run, seconds)
        finally:
            self._torch.set_num_threads(before)

    def _product(self) -> None:
        self._torch.mm(self._left, self._right, out=self._out)

    def _copy(self) -> None:
        self._target.copy_(self._source)
