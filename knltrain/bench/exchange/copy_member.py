"""The machine's bound: the speed at which one worker's cores copy while all others copy as well.

    python -m knltrain.bench.exchange.copy_member THREADS

The faster of two copies counts: NumPy's, which is the C library's, and PyTorch's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, final

import numpy as np
import torch

from knltrain.bench.exchange.member import Answers, HeldVectors, Member, check_values, serve_apart


@final
class _Copies(HeldVectors):
    """A source and a target."""

    def __init__(self, size: int) -> None:
        self._source, self._target = np.ones(size, np.float32), np.zeros(size, np.float32)
        target, source = torch.from_numpy(self._target), torch.from_numpy(self._source)
        self.operations = {
            "numpy": partial(np.copyto, self._target, self._source),
            "torch": partial(target.copy_, source),
        }

    def check(self) -> None:
        """Check that it copies."""
        for name, run in self.operations.items():
            self._target.fill(0)
            run()
            check_values(name, [self._target], 1)


@final
class CopyMember(Member):
    """A process that copies."""

    version = f"NumPy {np.__version__}, torch {torch.__version__}"

    def hold(self, sizes: Sequence[int], handles: Sequence[Any]) -> HeldVectors:  # noqa: ARG002
        """Allocate a source and a target of the one size."""
        return _Copies(sizes[0])


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    member = CopyMember()
    serve_apart(member.version, Answers(member))
