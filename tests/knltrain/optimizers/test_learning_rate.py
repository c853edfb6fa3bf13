"""Every policy follows its formula, worked out by hand."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from knltrain.config import LearningRateConfig
from knltrain.optimizers.learning_rate import learning_rate_at

TOTAL = 100


def _rate(step: int, **keys: Any) -> float:
    return learning_rate_at(LearningRateConfig(base=0.5, **keys), step, TOTAL)


BY_HAND: list[tuple[dict[str, Any], dict[int, float]]] = [
    ({"policy": "fixed"}, {0: 0.5, 99: 0.5}),
    (
        {"policy": "step", "gamma": 0.1, "step_size": 30},
        {0: 0.5, 29: 0.5, 30: 0.05, 59: 0.05, 60: 0.005},
    ),
    (
        {"policy": "multistep", "gamma": 0.1, "step_values": (10, 50)},
        {0: 0.5, 9: 0.5, 10: 0.05, 49: 0.05, 50: 0.005, 99: 0.005},
    ),
    (
        {"policy": "piecewise", "step_values": (10, 50), "step_rates": (0.3, 0.01)},
        {0: 0.5, 9: 0.5, 10: 0.3, 49: 0.3, 50: 0.01, 99: 0.01},
    ),
    ({"policy": "exp", "gamma": 0.9}, {0: 0.5, 1: 0.45, 3: 0.3645}),
    # Caffe's lenet_solver.prototxt halves its rate about every 15,000 steps.
    (
        {"policy": "inv", "gamma": 0.0001, "power": 0.75},
        {0: 0.5, 10_000: 0.5 / 2**0.75, 150_000: 0.5 / 8},
    ),
    ({"policy": "poly", "power": 2.0}, {0: 0.5, 50: 0.125, 90: 0.005, 100: 0.0}),
    (
        {"policy": "sigmoid", "gamma": -0.1, "step_size": 50},
        {50: 0.25, 0: 0.5 * 0.9933071490757153, 100: 0.5 * 0.006692850924284856},
    ),
    ({"policy": "cosine"}, {0: 0.5, 50: 0.25, 25: 0.5 * 0.8535533905932737, 100: 0.0}),
]


@pytest.mark.parametrize(("keys", "rates"), BY_HAND, ids=[keys["policy"] for keys, _ in BY_HAND])
def test_policy_follows_its_formula(keys: dict[str, Any], rates: dict[int, float]) -> None:
    for step, rate in rates.items():
        assert _rate(step, **keys) == pytest.approx(rate, rel=1e-12, abs=1e-12), step


def test_every_policy_of_the_configuration_is_tested() -> None:
    policies = get_args(LearningRateConfig.model_fields["policy"].annotation)
    assert {keys["policy"] for keys, _ in BY_HAND} == set(policies)


def test_warm_up_rises_linearly_to_the_policy_s_rate() -> None:
    keys = {"policy": "fixed", "warmup_steps": 10, "warmup_start": 0.1}
    assert _rate(0, **keys) == pytest.approx(0.1)
    assert _rate(5, **keys) == pytest.approx(0.3)
    assert _rate(10, **keys) == _rate(11, **keys) == 0.5


@pytest.mark.parametrize(
    ("target", "rates"),
    [("base", (0.1, 0.175, 0.25, 0.325, 0.24)), ("policy", (0.1, 0.165, 0.21, 0.235, 0.24))],
)
def test_warm_up_aims_at_the_policy_s_rate_or_as_intel_s_caffe_at_the_base(
    target: str, rates: tuple[float, ...]
) -> None:
    keys = {"policy": "poly", "power": 1.0, "warmup_steps": 4, "warmup_start": 0.1}
    config = LearningRateConfig(base=0.4, warmup_target=target, **keys)  # type: ignore[arg-type]
    assert [learning_rate_at(config, step, 10) for step in range(5)] == pytest.approx(rates)


def test_sigmoid_rises_with_a_positive_gamma_as_caffe_s() -> None:
    keys = {"policy": "sigmoid", "gamma": 0.1, "step_size": 50}
    rates = [_rate(step, **keys) for step in (0, 50, 100)]
    assert rates == pytest.approx([0.5 * 0.006692850924284856, 0.25, 0.5 * 0.9933071490757153])
    assert _rate(0, policy="sigmoid", gamma=1e9, step_size=1) == pytest.approx(0)


def test_warm_up_starts_at_zero_and_does_not_shift_the_policy() -> None:
    assert _rate(0, policy="cosine", warmup_steps=10) == 0
    assert _rate(5, policy="cosine", warmup_steps=10) == pytest.approx(
        _rate(5, policy="cosine") / 2
    )
    assert _rate(50, policy="cosine", warmup_steps=10) == pytest.approx(0.25)


@pytest.mark.parametrize("keys", [keys for keys, _ in BY_HAND], ids=lambda keys: keys["policy"])
def test_worker_that_goes_past_the_end_has_a_rate_that_does_not_rise(keys: dict[str, Any]) -> None:
    rates = [_rate(step, **keys) for step in (TOTAL - 1, TOTAL, TOTAL + 1, 3 * TOTAL, 10**6)]
    assert rates == sorted(rates, reverse=True)
    assert 0 <= rates[-1] <= rates[0] <= 0.5
