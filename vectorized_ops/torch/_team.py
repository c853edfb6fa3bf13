"""The threads in which kernels run: PyTorch's own, so that no second pool spins on its cores."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.kernels.channels_last.team import use_team

_LEAST_VALUES = 32768
"""Values per thread below which fewer threads are quicker, as PyTorch has it for its own loops."""

_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


def _borrow_team() -> None:
    library = ctypes.CDLL(torch._C.__file__)
    try:
        use_team(*(_address(getattr(library, name)) for name in _FUNCTIONS))
    except AttributeError as error:
        raise OperationError(
            f"this PyTorch ({torch.__version__}) has no OpenMP threads to borrow ({error}): "
            "expected a build for Linux with OpenMP, as those on PyPI and pytorch.org are"
        ) from None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def threads_for(values: int) -> int:
    """Return among how many threads the work on so many values is divided."""
    return max(1, min(torch.get_num_threads(), values // _LEAST_VALUES))


_borrow_team()
