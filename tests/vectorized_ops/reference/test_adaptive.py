from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.adaptive import (
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamUpdate,
    RMSPropUpdate,
)

RULES: list[tuple[Any, int, tuple[float, ...]]] = [
    (AdaGradUpdate, 1, (1e-8,)),
    (RMSPropUpdate, 1, (0.99, 1e-8)),
    (AdaDeltaUpdate, 2, (0.95, 1e-6)),
    (AdamUpdate, 2, (0.9, 0.999, 1e-8)),
]
"""The update, vectors of its state, and its numbers."""
GROUPS = ParameterGroups(
    np.array([0, 2, 5, 6], np.int64),
    np.array([1, 2, 1], np.float32),
    np.array([0.1, 0, 0.1], np.float32),
    np.array([np.nan, np.nan, 0.25], np.float32),
)


def one_step(
    rule: tuple[Any, int, tuple[float, ...]],
    parameters: list[float],
    gradient: list[float],
    rate: float,
    l1: bool = False,
    **clipping: float,
) -> tuple[np.ndarray, np.ndarray]:
    update, vectors, numbers = rule
    moved, state = np.array(parameters, np.float32), np.zeros((vectors, 6), np.float32)
    made = update(GROUPS, Clipping(**clipping), l1, *numbers)
    made(moved, np.array(gradient, np.float32), state, 1, rate)
    return moved, state


@pytest.mark.parametrize(
    ("rule", "rate", "moved"),
    [
        (RULES[0], 0.1, 0.1),  # g over its own size
        (RULES[1], 0.1, 1.0),  # g over a tenth of it
        (RULES[2], 1.0, 0.004472),
        (RULES[3], 0.1, 0.1),
    ],
    ids=["adagrad", "rmsprop", "adadelta", "adam"],
)
def test_first_step_is_that_of_the_formula(rule: Any, rate: float, moved: float) -> None:
    found, _ = one_step(rule, 6 * [0.0], [0.5, -0.5, 0.5, 0.5, 0.5, 0], rate)
    assert_allclose(found, np.array([-1, 1, -2, -2, -2, 0]) * moved, rtol=1e-4)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0].__name__)
@pytest.mark.parametrize("l1", [False, True])
def test_decay_is_a_term_of_the_gradient(rule: Any, l1: bool) -> None:
    parameters = [2.0, -3.0, 1.0, 2.0, 3.0, 0.0]
    decayed = [0.5 + (0.1 if l1 else 0.2), 0.5 - (0.1 if l1 else 0.3), 0.5, 0.5, 0.5, 0.0]
    found, state = one_step(rule, parameters, [0.5] * 5 + [0], 0.1, l1)
    _, expected = one_step(rule, 6 * [0.0], decayed, 0.1)
    assert_allclose(state, expected, rtol=1e-5)
    assert not np.array_equal(found, parameters)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0].__name__)
def test_gradient_is_clipped_before_it_is_used(rule: Any) -> None:
    found = one_step(rule, 6 * [0.0], [3, -4, 1, 0, 0, 8], 0.1, norm=1, value=2)
    expected = one_step(rule, 6 * [0.0], [2 / 3, -2 / 3, 1 / 3, 0, 0, 8], 0.1)
    for got, wanted in zip(found, expected, strict=True):
        assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0].__name__)
def test_statistics_move_by_their_own_momentum_alone(rule: Any) -> None:
    parameters, state = one_step(rule, 6 * [8.0], 6 * [4.0], 0.0, norm=1e-3)
    assert_array_equal(parameters, [8, 8, 8, 8, 8, 7])
    assert_array_equal(state[:, 5], 0)
