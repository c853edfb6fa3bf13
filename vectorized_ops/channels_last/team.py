"""The threads in which kernels of a team run: those of OpenMP that Numba's kernels have, too."""

from __future__ import annotations

from importlib import import_module

import numba

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.kernels.channels_last.team import use_team_of

_LEAST_VALUES = 32768
"""Values per thread below which fewer threads are quicker."""

_LAYER = "numba.np.ufunc.omppool"
"""Numba's threads by OpenMP; the library that it links has the functions."""


def borrow_team(layer: str = _LAYER) -> None:
    """Let kernels of a team run in OpenMP's threads of the library that the module `layer` links.

    Kernels that are loaded already keep theirs. Raises OperationError where there is no such module
    or where its library lacks the functions.
    """
    try:
        use_team_of(import_module(layer).__file__)
    except (ImportError, AttributeError, OSError, TypeError) as error:
        raise OperationError(
            f"this Numba ({numba.__version__}) has no OpenMP threads for kernels ({error}): "
            "expected a build for Linux with OpenMP, as those on PyPI and conda-forge are; or "
            "choose the implementation 'numba', for a run backend.layout = 'images_last'"
        ) from None


def threads_for(values: int) -> int:
    """Return among how many threads the work on so many values is divided."""
    return max(1, min(numba.get_num_threads(), values // _LEAST_VALUES))


borrow_team()
