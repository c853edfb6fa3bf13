"""Single keys replaced by `--set KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.config import RunConfig

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


def test_override_replaces_numbers_and_takes_bare_words_as_strings(load: Load) -> None:
    config = load("seed=7", "backend.name=torch", "data.root=/data/mnist", "placement.pin=false")
    assert (config.seed, config.backend.name, config.data.root) == (7, "torch", "/data/mnist")
    assert config.placement.pin is False


def test_override_of_steps_replaces_epochs_and_back(load: Load, smallest: str) -> None:
    assert load("train.steps=5").train.epochs is None
    assert load("train.steps=5", "seed=3").train.steps == 5
    steps = smallest.replace("epochs = 2", "steps = 2")
    assert load("train.epochs=5", text=steps).train.steps is None


def test_override_of_a_module_replaces_the_name_and_back(load: Load, smallest: str) -> None:
    network = load("network.module=a/own.py:build").network
    assert (network.name, network.module) == ("a/own.py:build", "a/own.py:build")
    text = smallest.replace('name = "lenet"', 'module = "own.py:build"')
    assert load(text=text).network.module == "own.py:build"
    network = load("network.name=lenet", text=text).network
    assert (network.name, network.module) == ("lenet", None)


def test_overrides_of_both_steps_and_epochs_are_refused(refusal: Refusal) -> None:
    assert "exactly one of epochs and steps, got both" in refusal("train.steps=5", "train.epochs=5")


def test_override_without_value_removes_the_key(load: Load, refusal: Refusal) -> None:
    assert load("exchange.moving_rate=0.2", "exchange.moving_rate=").exchange.moving_rate is None
    assert "got neither" in refusal("train.epochs=")


@pytest.mark.parametrize("override", ["train.epochs", "=5", "train..epochs=5"])
def test_override_without_key_and_value_shows_how_to_write_one(
    override: str, refusal: Refusal
) -> None:
    message = refusal(override)
    assert f"--set {override}" in message
    assert "KEY=VALUE" in message


def test_override_below_a_value_is_refused(refusal: Refusal) -> None:
    assert "'seed' is a value, not a table" in refusal("seed=3", "seed.x=1")


def test_override_with_broken_toml_is_refused(refusal: Refusal) -> None:
    assert "--set learning_rate.step_values=[1, 2" in refusal("learning_rate.step_values=[1, 2")


def test_override_cannot_smuggle_in_a_second_key(refusal: Refusal) -> None:
    assert "seed = '1\\nworkers = 2'" in refusal("seed=1\nworkers = 2")
