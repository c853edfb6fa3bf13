"""What every implementation of kernels is asked for, of channels_last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from contracts.kernels import check_same_bits, storing_past_the_caches, threads_kept


@pytest.fixture(autouse=True)
def threads_stay_as_they_were() -> Iterator[None]:
    with threads_kept():
        yield


@pytest.fixture(scope="session")
def storing() -> Callable[[bool], AbstractContextManager[None]]:
    return storing_past_the_caches


@pytest.fixture(scope="session")
def same_bits() -> Callable[..., None]:
    return check_same_bits
