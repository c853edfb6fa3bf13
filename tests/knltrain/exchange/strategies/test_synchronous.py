"""Methods whose workers meet all at once, against their published formulas in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import STEPS, WORKERS, check, diloco, outer, rate_at, stepped, target, train

ALPHA = 0.25


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


def test_diloco_takes_nesterovs_steps_at_the_center() -> None:
    check(train("diloco", WORKERS, STEPS, communication_period=2), outer(diloco))


@pytest.mark.parametrize("method", ["sync_easgd", "local_sgd", "sync_sgd"])
def test_layer_by_layer_is_the_same_to_the_last_bit(method: str) -> None:
    packed = train(method, WORKERS, STEPS)
    by_layer = train(method, WORKERS, STEPS, packing="per_layer")
    assert np.array_equal(packed.parameters, by_layer.parameters)
    assert np.array_equal(packed.models, by_layer.models)
