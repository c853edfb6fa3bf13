"""Every optimizer takes what the configuration says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knltrain.assembly import build_optimizer
from knltrain.config.optimizer_tables import OPTIMIZER_DEFAULTS
from knltrain.network.layer_slices import layer_parts
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.optimizers.optimizer import LayerwiseOptimizer


@pytest.fixture
def take_steps(config):
    """take_steps(rate, gradients, a__b=c): where steps of the optimizer lead to from 1."""

    def take(rate=0.1, gradients=(1.0, 1.0), **changes):
        network = Network("small", (1, 1, 16), (Dense("out", 1, bias=False),))
        optimizer = build_optimizer(config(**changes), network)
        parameters = np.ones(16, np.float32)
        for gradient in gradients:
            optimizer.step(parameters, np.full(16, gradient, np.float32), rate)
        assert np.ptp(parameters) == 0
        return float(parameters[0])

    return take


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_takes_what_the_configuration_says(take_steps, nesterov):
    first = 0.1 * (1 + 0.25)
    moved = (1 + 0.5) * first if nesterov else first
    second = 0.5 * first + 0.1 * (1 + 0.25 * (1 - moved))
    moved += (1 + 0.5) * second - 0.5 * first if nesterov else second
    found = take_steps(
        optimizer__momentum=0.5, optimizer__weight_decay=0.25, optimizer__nesterov=nesterov
    )
    assert found == pytest.approx(1 - moved, rel=1e-6)


def test_lars_takes_what_the_configuration_says(take_steps):
    first = 2 * 0.1 / (1 + 0.25) * (1 + 0.25)
    after = 1 - first
    second = 0.5 * first + 2 * 0.1 * after / (1 + 0.25 * after) * (1 + 0.25 * after)
    found = take_steps(
        rate=2.0,
        optimizer__name="lars",
        optimizer__momentum=0.5,
        optimizer__weight_decay=0.25,
        optimizer__trust_coefficient=0.1,
    )
    assert found == pytest.approx(after - second, rel=1e-6)


def test_adamw_takes_what_the_configuration_says(take_steps):
    """By another beta the corrected moments of gradients that are not all equal would differ."""
    chosen = {
        "optimizer__name": "adamw",
        "optimizer__beta1": 0.75,
        "optimizer__beta2": 0.5,
        "optimizer__epsilon": 0.5,
        "optimizer__weight_decay": 0.25,
    }
    w, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate((1.0, 3.0), start=1):
        m, v = 0.75 * m + 0.25 * g, 0.5 * v + 0.5 * g * g
        corrected = m / (1 - 0.75**t), v / (1 - 0.5**t)
        w -= 0.1 * (corrected[0] / (corrected[1] ** 0.5 + 0.5) + 0.25 * w)
    assert take_steps(gradients=(1.0, 3.0), **chosen) == pytest.approx(w, rel=1e-6)


@pytest.mark.parametrize("l1", [False, True])
@pytest.mark.parametrize("name", ["adam", "adagrad", "rmsprop", "adadelta"])
def test_adaptive_optimizers_take_what_the_configuration_says(take_steps, name, l1):
    """Each by Caffe's formula; by another number of its own the result would differ."""
    w, h, other = 1.0, 0.0, 0.0
    for t, given in enumerate((1.0, 3.0), start=1):
        g = given + 0.25 * (math.copysign(1, w) if l1 else w)
        if name == "adagrad":
            h += g * g
            w -= 0.1 * g / (math.sqrt(h) + 0.5)
        elif name == "rmsprop":
            h = 0.75 * h + 0.25 * g * g
            w -= 0.1 * g / (math.sqrt(h) + 0.5)
        elif name == "adadelta":
            h = 0.75 * h + 0.25 * g * g
            d = g * math.sqrt((other + 0.5) / (h + 0.5))
            other = 0.75 * other + 0.25 * d * d
            w -= 0.1 * d
        else:
            other, h = 0.75 * other + 0.25 * g, 0.5 * h + 0.5 * g * g
            w -= 0.1 * math.sqrt(1 - 0.5**t) / (1 - 0.75**t) * other / (math.sqrt(h) + 0.5)
    own = {
        "adam": {"optimizer__beta1": 0.75, "optimizer__beta2": 0.5},
        "rmsprop": {"optimizer__rho": 0.75},
        "adadelta": {"optimizer__rho": 0.75},
    }.get(name, {})
    found = take_steps(
        gradients=(1.0, 3.0),
        optimizer__name=name,
        optimizer__epsilon=0.5,
        optimizer__weight_decay=0.25,
        optimizer__regularisation="l1" if l1 else "l2",
        **own,
    )
    assert found == pytest.approx(w, rel=1e-6)


@pytest.mark.parametrize("name", OPTIMIZER_DEFAULTS)
def test_gradient_is_clipped_as_the_configuration_says(take_steps, name):
    def found(**clipping):
        decay = {"optimizer__name": name, "optimizer__weight_decay": 0.5}
        epsilon = {"optimizer__epsilon": 0.5} if "epsilon" in OPTIMIZER_DEFAULTS[name] else {}
        return take_steps(gradients=(-1.0, -1.0), **decay, **epsilon, **clipping)

    by_norm, by_value = found(optimizer__clip_norm=3.0), found(optimizer__clip_value=0.75)
    assert by_norm == pytest.approx(by_value, rel=1e-6)
    assert by_norm != pytest.approx(found(), rel=1e-6)


def test_gradient_of_several_batches_is_clipped_as_their_sum(config):
    """Caffe's order: gradients (3, 4) twice, clipped to norm 5, are (3, 4) / 2 in the mean."""
    network = Network("small", (1, 1, 16), (Dense("out", 1, bias=False),))
    chosen = config(train__iter_size=2, optimizer__clip_norm=5.0, optimizer__momentum=0.0)
    parameters, mean = np.zeros((2, 16), np.float32)
    mean[:2] = 3, 4
    build_optimizer(chosen, network).step(parameters, mean, 1.0)
    np.testing.assert_allclose(parameters[:3], [-1.5, -2, 0])


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (name, more)
        for name, keys in OPTIMIZER_DEFAULTS.items()
        for more in ({}, {"clip_value": 0.5}, {"regularisation": "l1"})
        if "regularisation" in keys or "regularisation" not in more
    ],
)
def test_layers_that_step_by_themselves_come_to_the_same_bits(config, name, more):
    """As `caffegpi` has them step: each by one thread, when its gradient is there."""
    network = Network("two", (2, 3, 3), (Dense("hidden", 5), Dense("out", 3)))
    settings = {"name": name, "weight_decay": 0.25, **more}
    chosen = {f"optimizer__{key}": value for key, value in settings.items()}
    whole = build_optimizer(config(**chosen), network)
    by_layer = build_optimizer(config(exchange__method="caffegpi", **chosen), network)
    assert isinstance(by_layer, LayerwiseOptimizer)
    parts, rng = layer_parts(network), np.random.default_rng(1)
    expected = rng.standard_normal(network.packed_size, np.float32)
    found = expected.copy()
    for _ in range(3):
        gradient = rng.standard_normal(network.packed_size, np.float32)
        for number, part in enumerate(parts):
            by_layer.step_part(number, found[part], gradient[part].copy(), 0.1)
        whole.step(expected, gradient, 0.1)
    assert len(parts) == 2
    assert np.array_equal(found, expected)


def test_layers_step_at_once_where_the_norm_of_all_is_clipped(config):
    network = Network("two", (2, 3, 3), (Dense("hidden", 5), Dense("out", 3)))
    chosen = config(exchange__method="caffegpi", optimizer__clip_norm=1.0)
    optimizer = build_optimizer(chosen, network)
    assert isinstance(optimizer, LayerwiseOptimizer)
    assert optimizer.is_whole
