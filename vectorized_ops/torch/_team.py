"""The threads in which kernels run: PyTorch's own, so that no second pool spins on its cores."""

from __future__ import annotations

import torch

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.kernels.channels_last.team import use_team_of

_LEAST_VALUES = 32768
"""Values per thread below which fewer threads are quicker, as PyTorch has it for its own loops."""


def _borrow_team() -> None:
    try:
        use_team_of(torch._C.__file__)
    except AttributeError as error:
        raise OperationError(
            f"this PyTorch ({torch.__version__}) has no OpenMP threads to borrow ({error}): "
            "expected a build for Linux with OpenMP, as those on PyPI and pytorch.org are"
        ) from None


def threads_for(values: int) -> int:
    """Return among how many threads the work on so many values is divided."""
    return max(1, min(torch.get_num_threads(), values // _LEAST_VALUES))


_borrow_team()
