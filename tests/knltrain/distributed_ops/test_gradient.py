from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from knltrain.distributed_ops import GradientHandle, Times
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost


def handle_of(holding: Any, times: Times, pieces: int = 2) -> GradientHandle:
    gradients = {"weights": np.ones(4, np.float32)}
    reductions = [holding.start(gradients["weights"]) for _ in range(pieces)]
    return GradientHandle("conv", gradients, reductions, 0.0, times)


def test_gradients_are_there_when_all_pieces_are(holding: Any) -> None:
    handle, found = handle_of(holding, Times()), []
    waiter = threading.Thread(target=lambda: found.append(handle.wait()))
    waiter.start()
    holding.held[0].release.set()
    waiter.join(0.05)
    assert waiter.is_alive()
    assert not handle.is_reduced
    holding.held[1].release.set()
    waiter.join(20)
    assert list(found[0]) == ["weights"]
    assert handle.is_reduced
    assert handle.wait() is found[0]


def test_time_of_waiting_is_counted_once(holding: Any) -> None:
    times = Times()
    handle = handle_of(holding, times)
    holding.release()
    handle.wait()
    seconds = times.exposed_seconds, times.issued_seconds
    handle.wait()
    assert (times.exposed_seconds, times.issued_seconds) == seconds
    assert 0 < times.exposed_seconds < times.issued_seconds


@pytest.mark.parametrize("kind", [PeerLost, ExchangeTimeout, CollectiveError])
def test_error_names_the_layer_and_the_rank_at_every_wait(
    holding: Any, kind: type[Exception]
) -> None:
    handle = handle_of(holding, Times())
    holding.held[1].error = kind("rank 3 is gone")
    holding.release()
    for _ in range(2):
        with pytest.raises(kind, match="gradient of layer 'conv': rank 3 is gone"):
            handle.wait()
    assert not handle.is_reduced
