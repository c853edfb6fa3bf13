from __future__ import annotations

import pytest

from knltrain.config import LearningRateConfig
from knltrain.errors import ConfigError
from knltrain.interchange.caffe.policies import rate_settings
from knltrain.interchange.caffe.text_format import parse
from knltrain.optimizers.learning_rate import learning_rate_at


def _config(text: str) -> LearningRateConfig:
    found = rate_settings(parse(text, "a.prototxt"))
    return LearningRateConfig(**{each.key: each.value for each in found})


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ('base_lr: 0.4 lr_policy: "fixed"', 0.4),
        ('base_lr: 0.4 lr_policy: "step" gamma: 0.5 stepsize: 2', 0.4 * 0.5**3),
        ('base_lr: 0.4 lr_policy: "multistep" gamma: 0.5 stepvalue: [2, 6, 9]', 0.4 * 0.5**2),
        ('base_lr: 0.4 lr_policy: "exp" gamma: 0.5', 0.4 * 0.5**7),
        ('base_lr: 0.4 lr_policy: "inv" gamma: 0.5 power: 2', 0.4 * (1 + 0.5 * 7) ** -2),
        ('base_lr: 0.4 lr_policy: "poly" power: 2', 0.4 * (1 - 7 / 10) ** 2),
        (
            'base_lr: 0.4 lr_policy: "sigmoid" gamma: -0.5 stepsize: 3',
            0.4 / (1 + 2.718281828459045 ** (0.5 * (7 - 3))),
        ),
        (
            'base_lr: 0.4 lr_policy: "sigmoid" gamma: 0.5 stepsize: 3',
            0.4 / (1 + 2.718281828459045 ** (-0.5 * (7 - 3))),
        ),
        ('base_lr: 0.4 lr_policy: "fixed" warmup_iter: 4 warmup_start_lr: 0.1', 0.4),
    ],
)
def test_rate_is_caffes(text: str, rate: float) -> None:
    assert learning_rate_at(_config(text), 7, 10) == pytest.approx(rate, rel=1e-12)


def test_stages_hold_to_their_last_step() -> None:
    stages = "stagelr: [0.4, 0.2, 0.1] stageiter: [2, 5, 7]"
    config = _config(f'base_lr: 9 lr_policy: "multifixed" {stages}')
    rates = [learning_rate_at(config, step, 10) for step in range(9)]
    assert rates == [0.4] * 3 + [0.2] * 3 + [0.1] * 3
    assert _config('lr_policy: "multifixed" stagelr: 0.4 stageiter: 2').base == 0.4


def test_warmup_aims_at_the_base_rate() -> None:
    policy = 'base_lr: 0.4 lr_policy: "poly" power: 1 warmup_iter: 4 warmup_start_lr: 0.1'
    rates = [learning_rate_at(_config(policy), step, 10) for step in range(5)]
    assert rates == pytest.approx([0.1, 0.175, 0.25, 0.325, 0.24])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.prototxt:1: base_lr: expected it, above 0"),
        ("base_lr: 0", "a.prototxt:1: base_lr: expected it, above 0"),
        ("base_lr: 1", "unknown lr_policy ''"),
        ('base_lr: 1\nlr_policy: "setp"', "a.prototxt:2: unknown lr_policy 'setp': .*mean 'step'"),
        ('base_lr: 1\nlr_policy: "step" gamma: 0.1', ":2: lr_policy: 'step' needs stepsize"),
        ('base_lr: 1 lr_policy: "inv" gamma: 0.1 power: 0', "power: 0.0: expected a number above"),
        (
            'lr_policy: "multifixed"\nstagelr: [1, 2] stageiter: 3',
            "a.prototxt:2: lr_policy: 'multifixed' with 2 stagelr and 1 stageiter",
        ),
        (
            'base_lr: 1 lr_policy: "multifixed" stagelr: 2 stageiter: 3\nwarmup_iter: 2',
            "a.prototxt:2: the warm-up aims at base_lr, 1.0, and 'multifixed' begins",
        ),
        ('base_lr: 1 lr_policy: "plateau"', "'plateau' is not there: expected multistep"),
        (
            'base_lr: 1 lr_policy: "sigmoid" stepsize: 3\ngamma: 0',
            "a.prototxt:2: gamma: 0.0: expected a number above 0",
        ),
    ],
)
def test_rates_that_ours_cannot_have_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rate_settings(parse(text, "a.prototxt"))
