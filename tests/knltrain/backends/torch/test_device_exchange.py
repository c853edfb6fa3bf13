"""What exchanges compute with on a device is what NumPy computes, and stays there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.backends.torch.device_exchange import DeviceExchange
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.errors import PeerLost
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.vectors import FloatArray
from vectorized_ops.reference import elastic as kernels

VECTORS = 3


class Doubling:
    """A sum over two workers that are alike."""

    def all_reduce(self, tensor: torch.Tensor) -> None:
        tensor *= 2

    def close(self) -> None:
        pass


def drawn() -> list[FloatArray]:
    draws = np.random.default_rng(1)
    return [draws.standard_normal(100, dtype=np.float32) for _ in range(VECTORS)]


def rules() -> list[SynchronousRule]:
    return [
        EASGD(0.45, kernels),
        GradientMean(3, kernels.synchronous_average),
        ModelAveraging(3, kernels.synchronous_model_average),
    ]


@pytest.mark.parametrize("number", range(len(rules())))
def test_rules_have_the_same_bits_there(number: int) -> None:
    here, there = drawn(), drawn()
    nothing = np.zeros((0, 100), np.float32)
    mirrors = Mirrors(HOST, are_apart=True)
    exchange = DeviceExchange(mirrors, Doubling())  # type: ignore[arg-type]
    mirrors.follow(*there)
    rule, moved = rules()[number], rules()[number]
    moved.compute_on(exchange)
    before = [each.copy() for each in there]
    for each, (local, center, contribution) in ((rule, here), (moved, there)):
        each.contribute(local, center, contribution)
        if each is moved:
            exchange.all_reduce(contribution)
        else:
            contribution *= 2
        each.absorb(center, nothing, contribution)
        each.follow(local, center, contribution)
    for unchanged, values in zip(before, there, strict=True):
        np.testing.assert_array_equal(values, unchanged)  # the host's has not been touched
    mirrors.to_host(*there)
    for expected, found in zip(here, there, strict=True):
        np.testing.assert_array_equal(found, expected)
    exchange.close()


def test_what_a_library_raises_comes_through() -> None:
    class Lost(Doubling):
        def all_reduce(self, tensor: torch.Tensor) -> None:
            raise PeerLost("worker 1 is gone")

    mirrors, (values, *_) = Mirrors(HOST, are_apart=True), drawn()
    mirrors.follow(values)
    with pytest.raises(PeerLost, match="worker 1"):
        DeviceExchange(mirrors, Lost()).all_reduce(values)  # type: ignore[arg-type]
