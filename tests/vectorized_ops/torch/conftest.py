from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parent))  # modules beside tests are not importable otherwise

THREADS = 2


@pytest.fixture(autouse=True)
def threads_and_seed() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also small arrays are divided among threads."""
    monkeypatch.setattr("vectorized_ops.torch._team._LEAST_VALUES", 1)


@pytest.fixture(scope="session")
def same_bits() -> Callable[..., None]:
    """Checks that a computation gives the same bits every time, for any number of threads."""

    def check(compute: Callable[[], list[Tensor]]) -> None:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            first = compute()
            for _ in range(3):
                for one, other in zip(first, compute(), strict=True):
                    assert one.numpy().tobytes() == other.numpy().tobytes()

    return check
