"""Methods whose workers meet all at once, against their published formulas in double precision."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from quadratics import SIZE, Trained, rate_at, start, target, train

from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.selection import strategy_in
from knltrain.exchange.transports.collective_transport import WHOLE
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference.elastic import synchronous_average

WORKERS, STEPS, ALPHA = 3, 8, 0.25
Step = Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def check(found: Trained, step: Step, workers: int = WORKERS) -> None:
    """`step(t, W, C)` gives W (P, n) and C (n,) after step t, from those before it."""
    locals_, center = np.stack([start()] * workers).astype(np.float64), start().astype(np.float64)
    for number in range(len(found.models)):
        locals_, center = step(number, locals_, center)
        np.testing.assert_allclose(found.parameters[number], locals_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[number], center, rtol=1e-4, atol=1e-5)


def stepped(number: int, locals_: np.ndarray) -> np.ndarray:
    """All locals after a gradient step of each."""
    gradients = locals_ - np.stack([target(rank) for rank in range(len(locals_))])
    return locals_ - rate_at(number) * gradients


def elastic(number: int, locals_: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equations (1) and (2) of SC17, all taken at step t."""
    pulls = ALPHA * (locals_ - center)
    return stepped(number, locals_) - pulls, center + pulls.sum(axis=0)


@pytest.mark.parametrize("method", ["sync_easgd", "sync_easgd1", "sync_easgd2", "sync_easgd3"])
def test_synchronous_easgd_is_equations_1_and_2(method: str) -> None:
    check(train(method, WORKERS, STEPS, moving_rate=ALPHA), elastic)


@pytest.mark.parametrize("workers", [2, 5])
def test_easgd_2_and_3_are_the_same_bits_and_1_up_to_the_order_of_sums(workers: int) -> None:
    first, second, third = (
        train(f"sync_easgd{number}", workers, STEPS, moving_rate=0.15) for number in (1, 2, 3)
    )
    assert np.array_equal(second.parameters, third.parameters)
    assert np.array_equal(second.models, third.models)
    np.testing.assert_allclose(first.models, second.models, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(first.parameters, second.parameters, rtol=1e-5, atol=1e-6)


def test_easgd_3_takes_steps_without_exchange_in_between() -> None:
    def by_formula(t: int, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return elastic(t, w, c) if t % 3 == 0 else (stepped(t, w), c)

    for method in ("sync_easgd", "sync_easgd3"):
        found = train(method, WORKERS, STEPS, moving_rate=ALPHA, communication_period=3)
        check(found, by_formula)


@pytest.mark.parametrize(("method", "factor"), [("sync_sgd", 1.0), ("core_groups", WORKERS)])
def test_gradients_are_averaged_or_added_up(method: str, factor: float) -> None:
    def by_formula(t: int, w: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gradient = (w - np.stack([target(rank) for rank in range(WORKERS)])).mean(axis=0)
        moved = w - rate_at(t) * factor * gradient
        return moved, moved[0]

    found = train(method, WORKERS, STEPS)
    check(found, by_formula)
    assert all(
        np.array_equal(found.parameters[:, 0], other)
        for other in (found.parameters[:, 1], found.parameters[:, 2])
    )


@pytest.mark.parametrize("nodes", [1, 3])
def test_gradients_layer_by_layer_are_the_same_bits_as_at_once(nodes: int) -> None:
    whole = train("sync_sgd", WORKERS, STEPS, nodes=nodes)
    for packing in ("packed", "per_layer"):
        by_layer = train("layerwise_sgd", WORKERS, STEPS, nodes=nodes, packing=packing)
        assert np.array_equal(by_layer.parameters, whole.parameters)
        assert np.array_equal(by_layer.models, whole.models)


def test_exchange_of_a_layer_begins_while_others_are_computed() -> None:
    """The transport is asked for the last layer before the first one's gradient is there."""
    rule = ModelAveraging(1, synchronous_average)
    parts = (slice(0, 8), slice(8, 16), slice(16, 24))
    method = Method("layerwise_sgd", rule, "gradient", parts=parts, overlap="backward")
    asked: list[slice] = []
    began = threading.Event()

    class Watched(Loopback):
        def exchange_beside(self, rule, part=WHOLE, *, of_locals=True):  # type: ignore[no-untyped-def]
            asked.append(part)
            began.set()
            super().exchange_beside(rule, part, of_locals=of_locals)

    part = strategy_in(method, Watched(24, 1, spares=True))
    part.step_begins(0)
    part.gradient[:] = np.arange(24)
    part.gradient_done_from(20)
    assert not began.wait(0.05)
    part.gradient_done_from(16)
    assert began.wait(20)
    assert asked == [parts[2]]
    part.gradient_done_from(8)
    part.gradient_ready(0)
    assert asked == list(parts[::-1])
    assert np.array_equal(part.gradient, np.arange(24))
    part.close()


def test_local_sgd_averages_in_every_step_before_it_may_do_so_seldom() -> None:
    def by_formula(t: int, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = stepped(t, w)
        if t < 2 or (t + 1) % 3 == 0:
            mean = w.mean(axis=0)
            return np.stack([mean] * WORKERS), mean
        return w, c

    check(
        train("post_local_sgd", WORKERS, STEPS, communication_period=3, synchronous_steps=2),
        by_formula,
    )


def outer(update: Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Step:
    """A step of each, and every second time an outer step: `update(t, velocity, d)`."""
    velocity = np.zeros(SIZE)

    def by_formula(t: int, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal velocity
        w = stepped(t, w)
        if t % 2 == 0:
            return w, c
        velocity, move = update(t, velocity, c - w.mean(axis=0))
        return np.stack([c - move] * WORKERS), c - move

    return by_formula


def test_slow_momentum_is_that_of_its_paper() -> None:
    def update(t: int, u: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = 0.6 * u + d / rate_at(t)
        return u, 0.9 * rate_at(t) * u

    found = train(
        "slowmo",
        WORKERS,
        STEPS,
        communication_period=2,
        center_learning_rate=0.9,
        center_momentum=0.6,
    )
    check(found, outer(update))


def diloco(t: int, v: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    v = 0.9 * v + d
    return v, 0.7 * (d + 0.9 * v)


def test_diloco_takes_nesterovs_steps_at_the_center() -> None:
    check(train("diloco", WORKERS, STEPS, communication_period=2), outer(diloco))


def test_streaming_diloco_of_one_fragment_without_delay_is_diloco() -> None:
    plain = train("diloco", WORKERS, STEPS, communication_period=2)
    streaming = train(
        "streaming_diloco",
        WORKERS,
        STEPS,
        communication_period=2,
        fragments=1,
        delay_steps=0,
        mixing=0.0,
    )
    assert np.array_equal(plain.parameters, streaming.parameters)
    assert np.array_equal(plain.models, streaming.models)


@pytest.mark.parametrize("freely", [False, True])
def test_streaming_diloco_exchanges_fragments_in_turn_while_steps_go_on(freely: bool) -> None:
    """Slots of 2 steps; what is exchanged was true one step before it is mixed in."""
    cuts = [slice(0, 1232), slice(1232, SIZE)]  # layer a, layers b and c
    velocity = np.zeros(SIZE)

    def by_formula(t: int, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w, c, steps = stepped(t, w), c.copy(), t + 1
        if (steps + 1) % 2 == 0:
            part = cuts[((steps + 1) // 2 - 1) % 2]
            velocity[part], move = diloco(t, velocity[part], c[part] - w[:, part].mean(axis=0))
            c[part] -= move
        if steps % 2 == 0:
            part = cuts[(steps // 2 - 1) % 2]
            w[:, part] = 0.25 * w[:, part] + 0.75 * c[part]
        return w, c

    found = train(
        "streaming_diloco",
        WORKERS,
        STEPS,
        freely=freely,
        communication_period=4,
        fragments=2,
        delay_steps=1,
        mixing=0.25,
    )
    if freely:  # the center was looked at after the last step only
        locals_, center = np.stack([start()] * WORKERS).astype(float), start().astype(float)
        for number in range(STEPS):
            locals_, center = by_formula(number, locals_, center)
        np.testing.assert_allclose(found.parameters[-1], locals_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[-1], center, rtol=1e-4, atol=1e-5)
    else:
        check(found, by_formula)


@pytest.mark.parametrize("method", ["sync_easgd", "local_sgd", "sync_sgd"])
def test_layer_by_layer_is_the_same_to_the_last_bit(method: str) -> None:
    packed = train(method, WORKERS, STEPS)
    by_layer = train(method, WORKERS, STEPS, packing="per_layer")
    assert np.array_equal(packed.parameters, by_layer.parameters)
    assert np.array_equal(packed.models, by_layer.models)
