from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.lars import LARSUpdate
from vectorized_ops.reference.sgd import SGDUpdate

BOUNDS = np.array([0, 3, 5, 7, 8], np.int64)
RATES = np.array([1, 2, 1, 1], np.float32)
DECAYS = np.array([0.5, 0.25, 0, 0], np.float32)
SEGMENTS = ParameterGroups(
    BOUNDS, RATES, DECAYS, np.array([np.nan, np.nan, np.nan, 0.5], np.float32)
)
ADAPTED = np.array([True, True, False, False])
TRUST = 0.1
UNCLIPPED = Clipping()


def vectors(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(8).astype(np.float32) for _ in range(3)]


def update(clipping: Clipping = UNCLIPPED, groups: ParameterGroups = SEGMENTS) -> LARSUpdate:
    return LARSUpdate(groups, clipping, 0.9, TRUST, ADAPTED)


def test_step_follows_algorithm_1_of_the_paper() -> None:
    parameters, gradient, velocity = vectors(1)
    w, g, v = (each.astype(np.float64) for each in (parameters, gradient, velocity))
    for s, layer in enumerate((slice(0, 3), slice(3, 5))):
        w_norm, g_norm = np.linalg.norm(w[layer]), np.linalg.norm(g[layer])
        local = TRUST * w_norm / (g_norm + DECAYS[s] * w_norm)
        v[layer] = 0.9 * v[layer] + 0.2 * RATES[s] * local * (g[layer] + DECAYS[s] * w[layer])
    v[5:7] = 0.9 * v[5:7] + 0.2 * g[5:7]
    w[:7] -= v[:7]
    w[7] -= 0.5 * g[7]
    update()(parameters, gradient, velocity, 0.2)
    assert_allclose(parameters, w, rtol=1e-5)
    assert_allclose(velocity, v, rtol=1e-5)


def test_without_decay_the_length_of_a_layer_s_gradient_does_not_matter() -> None:
    groups = ParameterGroups(BOUNDS, RATES, DECAYS * 0, SEGMENTS.statistics)
    results = []
    for factor in (1, 1024):
        parameters, gradient, _ = vectors(2)
        before = parameters.copy()
        gradient[:5] *= factor
        update(groups=groups)(parameters, gradient, np.zeros(8, np.float32), 0.5)
        results.append(parameters)
    assert_allclose(results[1], results[0], rtol=1e-6)
    first = slice(0, 3)
    moved = np.linalg.norm(results[0][first] - before[first])
    assert moved == pytest.approx(0.5 * TRUST * np.linalg.norm(before[first]), rel=1e-5)


@pytest.mark.parametrize("zero", [0, 1], ids=["weights", "gradient"])
def test_layer_without_a_ratio_moves_as_with_sgd(zero: int) -> None:
    found, expected = vectors(3), vectors(3)
    for each in (found, expected):
        each[zero][:5] = 0
    update()(*found, 0.1)
    SGDUpdate(SEGMENTS, Clipping(), 0.9, False)(*expected, 0.1)
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


def test_gradient_is_clipped_before_its_norms_are_taken() -> None:
    clipping = Clipping(norm=0.5, value=0.4)
    found, expected = vectors(4), vectors(4)
    expected[1][:7] = np.clip(expected[1][:7], -0.4, 0.4)
    expected[1][:7] *= 0.5 / np.linalg.norm(expected[1][:7])
    update(clipping)(*found, 0.1)
    update()(*expected, 0.1)
    assert_allclose(found[0], expected[0], rtol=1e-5)


def test_what_is_no_number_stays_in_its_layer() -> None:
    parameters, gradient, velocity = vectors(5)
    gradient[0] = np.nan
    update()(parameters, gradient, velocity, 0.1)
    assert np.isnan(parameters).tolist() == [True] + 7 * [False]
