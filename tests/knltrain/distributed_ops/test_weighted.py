"""What all layers with parameters do: their first values, their sums, their steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.distributed_ops import Dense, NodeReducer, Options, SingleProcessReducer
from knltrain.errors import NetworkError, PeerLost

REFERENCE = Options("reference")


def layers_of(reducer: Any, count: int = 3) -> list[Dense]:
    return [Dense(f"dense{n}", 4, 20, 20, reducer, REFERENCE) for n in range(count)]


def backward(layers: list[Dense], gradient: Any) -> list[Any]:
    handles = []
    for layer in reversed(layers):
        handles.append(layer.backward_weights(gradient, gradient))
        gradient = layer.backward_data(gradient)
    return handles


def test_backward_pass_ends_while_all_sums_are_under_way(
    holding: Any, random: Callable[..., Any]
) -> None:
    layers = layers_of(holding)
    handles = backward(layers, random(4, 20))  # would hang if anything waited for a sum
    assert len(holding.held) == 3
    assert not any(handle.is_reduced for handle in handles)
    holding.release()
    assert all(handle.wait() for handle in handles)


def test_sum_is_under_way_before_backward_data_begins(
    holding: Any, random: Callable[..., Any]
) -> None:
    layer, gradient = layers_of(holding, 1)[0], random(4, 20)
    layer.backward_weights(gradient, gradient)
    assert len(holding.held) == 1
    assert layer.times["backward_data"].calls == 0


def test_each_layer_waits_for_its_own_sum_alone(holding: Any, random: Callable[..., Any]) -> None:
    layers = layers_of(holding)
    handles = backward(layers, random(4, 20))
    holding.held[1].release.set()
    handles[1].wait()
    layers[1].step(0.1)
    assert [handle.is_reduced for handle in handles] == [False, True, False]


def test_rank_computes_on_while_another_has_not_even_begun(
    in_ranks: Callable[..., list[Any]], random: Callable[..., Any]
) -> None:
    computed = threading.Event()

    def work(reducer: NodeReducer) -> bytes:
        layers, gradient = layers_of(reducer), random(4, 20, seed=reducer.rank)
        if reducer.rank == 1:
            assert computed.wait(20)
        handles = backward(layers, gradient)
        if reducer.rank == 0:
            computed.set()
        return b"".join(handle.wait()["weights"].tobytes() for handle in handles)

    first, second = in_ranks(2, work)
    assert first == second


def test_sum_is_done_before_anybody_waits_for_it(
    in_ranks: Callable[..., list[Any]], random: Callable[..., Any]
) -> None:
    def work(reducer: NodeReducer) -> bool:
        layer, gradient = layers_of(reducer, 1)[0], random(4, 20)
        expected = gradient.T @ gradient  # the mean of equal gradients
        layer.gradients["weights"].fill(0)
        mine = gradient if reducer.rank == 0 else 3 * gradient
        layer.backward_weights(gradient, mine)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            layer.backward_data(gradient)
            if np.allclose(layer.gradients["weights"], 2 * expected, rtol=1e-4, atol=1e-4):
                return True
        return False

    assert in_ranks(2, work) == [True, True]


def test_rank_that_is_gone_is_named_with_the_layer(
    in_ranks: Callable[..., list[Any]], random: Callable[..., Any]
) -> None:
    def work(reducer: NodeReducer) -> str:
        if reducer.rank == 1:
            return ""
        handle = layers_of(reducer, 1)[0].backward_weights(random(4, 20), random(4, 20))
        with pytest.raises(PeerLost) as caught:
            handle.wait()
        return str(caught.value)

    assert in_ranks(2, work)[0].startswith("gradient of layer 'dense0': rank 1 is gone")


def test_step_follows_the_definition_with_momentum_and_decay(
    options: Options, laid_out: Callable[..., Any], random: Callable[..., Any]
) -> None:
    mine = Options(options.implementation, False, momentum=0.9, weight_decay=0.01)
    layer = Dense("dense", 4, 20, 20, SingleProcessReducer(), mine)
    weights, bias = layer.parameters["weights"].copy(), layer.parameters["bias"].copy()
    velocity, given = np.zeros_like(weights), laid_out(mine, random(4, 20))
    for _ in range(2):
        gradients = layer.backward_weights(given, given).wait()
        velocity = 0.9 * velocity + 0.1 * (gradients["weights"] + 0.01 * weights)
        weights = weights - velocity
        layer.step(0.1)
    np.testing.assert_allclose(layer.parameters["weights"], weights, rtol=1e-4, atol=1e-5)
    step = random(4, 20).sum(axis=0) * 0.1
    expected = bias - step - (0.9 * step + step)
    np.testing.assert_allclose(layer.parameters["bias"], expected, rtol=1e-4, atol=1e-5)


def test_first_values_follow_from_seed_and_name_alone() -> None:
    def weights(name: str, seed: int) -> Any:
        return Dense(
            name, 4, 400, 20, SingleProcessReducer(), Options("reference", seed=seed)
        ).parameters["weights"]

    first = weights("a", 1)
    assert first.tobytes() == weights("a", 1).tobytes()
    assert first.tobytes() != weights("b", 1).tobytes()
    assert first.tobytes() != weights("a", 2).tobytes()
    assert first.std() == pytest.approx((2 / 400) ** 0.5, rel=0.05)


def test_gradient_under_way_is_neither_used_nor_overwritten(
    holding: Any, random: Callable[..., Any]
) -> None:
    layer, values = layers_of(holding, 1)[0], random(4, 20)
    with pytest.raises(NetworkError, match=r"'dense0' cannot step .* none was computed"):
        layer.step(0.1)
    handle = layer.backward_weights(values, values)
    with pytest.raises(NetworkError, match="it is still under way; call backward_weights, and wai"):
        layer.step(0.1)
    with pytest.raises(NetworkError, match="while the last sum is under way"):
        layer.backward_weights(values, values)
    holding.release()
    handle.wait()
    layer.step(0.1)
    with pytest.raises(NetworkError, match="none was computed"):
        layer.step(0.1)


def test_calls_of_each_direction_are_counted(random: Callable[..., Any]) -> None:
    layer, values = layers_of(SingleProcessReducer(), 1)[0], random(4, 20)
    layer.forward(values)
    layer.forward(values)
    layer.backward_weights(values, values).wait()
    layer.backward_data(values)
    layer.step(0.1)
    assert [times.calls for times in layer.times.values()] == [2, 1, 1, 1]
    assert all(times.compute_seconds > 0 for times in layer.times.values())
    assert layer.times["backward_weights"].exposed_seconds > 0
    layer.clear_times()
    assert [times.calls for times in layer.times.values()] == [0] * 4


def test_memory_of_gradients_is_made_once(random: Callable[..., Any]) -> None:
    layer, values = layers_of(SingleProcessReducer(), 1)[0], random(4, 20)
    before = layer.gradients["weights"].ctypes.data
    for _ in range(2):
        found = layer.backward_weights(values, values).wait()
        assert found["weights"].ctypes.data == before
        layer.step(0.1)
