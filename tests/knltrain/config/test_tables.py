"""What each table's keys may be, alone and together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from knltrain.config import RunConfig

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


def test_smallest_description_gets_the_documented_defaults(load: Load) -> None:
    config = load()
    assert (config.name, config.seed, config.workers, config.runs_folder) == (
        "run",
        1,
        "auto",
        "runs",
    )
    assert (config.exchange.method, config.exchange.moving_rate) == ("sync_easgd", None)
    assert (config.exchange.communication_period, config.exchange.segment) == (1, "shm")
    assert (config.backend.name, config.backend.implementation) == ("cpu", "numba")
    assert config.evaluation.every_epochs == 1
    assert (config.checkpoint.every_epochs, config.checkpoint.keep) == (0, 2)
    assert config.placement.pin


def test_config_cannot_be_changed(load: Load) -> None:
    config = load()
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 2


def test_every_key_has_a_description() -> None:
    for name, field in RunConfig.model_fields.items():
        keys = getattr(field.annotation, "model_fields", None) or {name: field}
        for key, each in keys.items():
            assert each.description, f"{name}.{key}"


def test_neither_steps_nor_epochs_is_refused(refusal: Refusal, smallest: str) -> None:
    text = smallest.replace("epochs = 2\n", "")
    assert "[train]: expected exactly one of epochs and steps, got neither" in refusal(text=text)


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ("step", "gamma and step_size"),
        ("multistep", "gamma and step_values"),
        ("exp", "gamma"),
        ("inv", "gamma and power"),
        ("poly", "power"),
        ("sigmoid", "gamma and step_size"),
    ],
)
def test_policy_without_its_keys_is_refused(policy: str, keys: str, refusal: Refusal) -> None:
    message = refusal(f"learning_rate.policy={policy}")
    assert message.endswith(f"[learning_rate]: policy '{policy}' needs {keys}")


def test_policy_with_a_key_that_it_does_not_read_is_refused(refusal: Refusal) -> None:
    message = refusal("learning_rate.policy=cosine", "learning_rate.gamma=0.1")
    assert message.endswith("policy 'cosine' does not read gamma")


def test_step_values_that_do_not_rise_are_refused(refusal: Refusal) -> None:
    message = refusal(
        "learning_rate.policy=multistep",
        "learning_rate.gamma=0.1",
        "learning_rate.step_values=[20, 20]",
    )
    assert "step_values must rise, got [20, 20]" in message
