from __future__ import annotations

from knltrain.bench.methods.settings import MNIST_SETTINGS
from knltrain.config.methods import METHODS


def test_every_method_has_settings_and_no_other_has() -> None:
    assert set(MNIST_SETTINGS) == set(METHODS)


def test_settings_that_differ_from_the_method_s_own_say_why() -> None:
    for name, settings in MNIST_SETTINGS.items():
        if settings.exchange or settings.optimizer:
            assert settings.why, name
