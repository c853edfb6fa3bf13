"""Sums of vectors on devices leave the host as it is until it asks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from knltrain.backends.torch.device_sums import MirroredSums
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.errors import PeerLost


class Doubling:
    """A sum over two workers that are alike."""

    is_closed = False

    def all_reduce(self, tensor: torch.Tensor, check: Callable[[], None]) -> None:
        check()
        tensor *= 2

    def close(self) -> None:
        self.is_closed = True


class Lost(Doubling):
    """A sum with a worker that has ended."""

    def all_reduce(self, tensor: torch.Tensor, check: Callable[[], None]) -> None:
        raise PeerLost("worker 1 is gone")


def test_the_newest_values_are_added_and_stay_there() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), np.arange(7, dtype=np.float32)
    mirrors.follow(values)
    library = Doubling()
    sums = MirroredSums(mirrors, library)  # type: ignore[arg-type]
    sums.all_reduce(values, lambda: None)
    sums.all_reduce(values, lambda: None)
    assert values.tolist() == list(range(7))
    mirrors.to_host(values)
    assert values.tolist() == [4 * value for value in range(7)]
    sums.close()
    assert library.is_closed


def test_what_a_library_raises_comes_through() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), np.arange(7, dtype=np.float32)
    mirrors.follow(values)
    with pytest.raises(PeerLost, match="worker 1"):
        MirroredSums(mirrors, Lost()).all_reduce(values, lambda: None)  # type: ignore[arg-type]
