from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
import torch

from vectorized_ops.errors import OperationError
from vectorized_ops.torch import _team


@pytest.mark.parametrize(("values", "threads"), [(0, 1), (32767, 1), (70000, 2), (10**9, 3)])
def test_small_work_is_not_divided_among_all_threads(values: int, threads: int) -> None:
    torch.set_num_threads(3)
    assert _team.threads_for(values) == threads


def test_a_build_without_openmp_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _path: SimpleNamespace())
    with pytest.raises(OperationError, match="no OpenMP threads to borrow"):
        _team._borrow_team()


def test_the_team_is_pytorchs() -> None:
    library = ctypes.CDLL(torch._C.__file__)
    torch.set_num_threads(3)
    assert library.omp_get_max_threads() == 3
