"""The ways in which PyTorch's modules can run here, and what tests of all backends share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import pytest
import torch

from knltrain.backends.torch.execution import EagerExecution, Execution
from knltrain.network.network import Network

sys.path.append(str(Path(__file__).parent))  # modules beside tests are not importable otherwise
pytest.register_assert_rewrite("seam.definition")


@pytest.fixture(params=["eager", pytest.param("ipex", marks=pytest.mark.ipex)])
def execute(request: pytest.FixtureRequest) -> Callable[[Network], Execution]:
    """execute(network): each way of running its modules."""
    if request.param == "eager":
        return EagerExecution
    from knltrain.backends.torch.ipex_execution import IpexExecution

    return IpexExecution


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch's number of threads is put back after each test."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def threads_stay_as_they_were() -> Iterator[None]:
    """Backends set the number of threads, which is the whole process's."""
    numba_threads, torch_threads = numba.get_num_threads(), torch.get_num_threads()
    yield
    numba.set_num_threads(numba_threads)
    torch.set_num_threads(torch_threads)
