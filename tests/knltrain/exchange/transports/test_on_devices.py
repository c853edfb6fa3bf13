"""A transport whose vectors stay on devices leaves all but exchanges to the host's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from knltrain.backends.torch.device_sums import MirroredSums
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.errors import ConfigError
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.on_devices import OnDevices
from vectorized_ops.reference import elastic as kernels

SIZE = 64


class Alone:
    """The sum of one worker."""

    closed = False

    def all_reduce(self, tensor: torch.Tensor, check: Callable[[], None]) -> None:
        check()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def mirrors() -> Mirrors:
    return Mirrors(HOST, are_apart=True)


@pytest.fixture
def sums() -> Alone:
    return Alone()


@pytest.fixture
def transport(mirrors: Mirrors, sums: Alone) -> OnDevices:
    mirrored = MirroredSums(mirrors, sums)  # type: ignore[arg-type]
    return OnDevices(Loopback(SIZE, 1), mirrors, mirrored)


def test_an_exchange_is_seen_on_the_host_when_it_is_asked_for(
    transport: OnDevices, mirrors: Mirrors
) -> None:
    start = np.arange(SIZE, dtype=np.float32)
    transport.start_from(start)
    transport.local[:] = 2 * start
    mirrors.changed(transport.local)
    rule = EASGD(0.5, kernels)
    for _ in range(2):
        transport.exchange(rule)
    np.testing.assert_array_equal(transport.center, start)
    mirrors.to_host(transport.center, transport.local)
    np.testing.assert_array_equal(transport.center, 1.5 * start)
    np.testing.assert_array_equal(transport.local, 1.5 * start)
    transport.start_from(start)  # which the device must see, too
    transport.exchange(rule)
    mirrors.to_host(transport.center)
    np.testing.assert_array_equal(transport.center, start)


def test_the_host_does_all_else(transport: OnDevices, sums: Alone) -> None:
    assert (transport.rank, transport.workers, transport.on_host) == (0, 1, False)
    assert transport.all_sum(np.array([2.0]))[0] == 2
    assert transport.progress(3).tolist() == [3]
    transport.barrier()
    transport.check()
    transport.close()
    assert sums.closed
    assert transport.local.size == 0


def test_what_is_no_plain_exchange_is_refused(transport: OnDevices) -> None:
    rule = EASGD(0.5, kernels)
    for call in (transport.exchange_beside, transport.exchange_at_master):
        with pytest.raises(ConfigError, match="average all at once"):
            call(rule)
    with pytest.raises(ConfigError, match="average all at once"):
        transport.swap()


def test_the_rate_of_a_link_is_the_host_s(
    transport: OnDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert transport.link_rate(100) is None
    monkeypatch.setattr(Loopback, "link_rate", lambda _host, size: 2.0 * size)
    assert transport.link_rate(100) == 200
