"""What each table's keys may be, alone and together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.assembly import OPTIMIZERS
from knltrain.config import RunConfig, to_toml, with_workers
from knltrain.config.optimizer_tables import OPTIMIZER_DEFAULTS

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]

NO_DECAY = {"weight_decay": 0.0, "regularisation": "l2"}


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ("step", "gamma and step_size"),
        ("multistep", "gamma and step_values"),
        ("piecewise", "step_rates and step_values"),
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


def test_every_step_value_has_its_rate(refusal: Refusal) -> None:
    message = refusal(
        "learning_rate.policy=piecewise",
        "learning_rate.step_values=[10, 20]",
        "learning_rate.step_rates=[0.1]",
    )
    assert "1 step_rates for 2 step_values: expected one for each" in message


@pytest.mark.parametrize(
    ("policy", "keys", "gamma", "wanted"),
    [
        ("exp", (), "-0.5", "a number above 0"),
        ("exp", (), "0.0", "a number above 0"),
        ("sigmoid", ("learning_rate.step_size=5",), "0.0", "another number than 0"),
    ],
)
def test_only_a_sigmoid_may_have_a_gamma_below_0(
    policy: str, keys: tuple[str, ...], gamma: str, wanted: str, refusal: Refusal, load: Load
) -> None:
    message = refusal(f"learning_rate.policy={policy}", f"learning_rate.gamma={gamma}", *keys)
    assert message.endswith(f"gamma = {gamma} with policy '{policy}': expected {wanted}")
    falling = (
        "learning_rate.policy=sigmoid",
        "learning_rate.gamma=-0.5",
        "learning_rate.step_size=5",
    )
    assert load(*falling).learning_rate.gamma == -0.5


def test_step_values_that_do_not_rise_are_refused(refusal: Refusal) -> None:
    message = refusal(
        "learning_rate.policy=multistep",
        "learning_rate.gamma=0.1",
        "learning_rate.step_values=[20, 20]",
    )
    assert "step_values must rise, got [20, 20]" in message


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        (
            "sgd",
            {"momentum": 0.9, "weight_decay": 0.0, "regularisation": "l2", "nesterov": False},
        ),
        ("lars", {"momentum": 0.9, "weight_decay": 0.0, "trust_coefficient": 0.001}),
        ("adamw", {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0}),
        ("adam", {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **NO_DECAY}),
        ("adagrad", {"epsilon": 1e-8, **NO_DECAY}),
        ("rmsprop", {"rho": 0.99, "epsilon": 1e-8, **NO_DECAY}),
        ("adadelta", {"rho": 0.95, "epsilon": 1e-6, **NO_DECAY}),
    ],
)
def test_optimizer_gets_the_defaults_of_its_name_and_no_others(
    name: str, defaults: dict[str, float], load: Load
) -> None:
    found = load(f"optimizer.name={name}").optimizer.model_dump(exclude_none=True)
    assert found == {"name": name, **defaults}


def test_every_optimizer_of_the_configuration_can_be_built() -> None:
    assert set(OPTIMIZER_DEFAULTS) == set(OPTIMIZERS)


@pytest.mark.parametrize("name", OPTIMIZER_DEFAULTS)
def test_every_optimizer_may_clip_its_gradient(name: str, load: Load) -> None:
    chosen = load(f"optimizer.name={name}", "optimizer.clip_norm=5", "optimizer.clip_value=0.5")
    assert (chosen.optimizer.clip_norm, chosen.optimizer.clip_value) == (5, 0.5)
    assert load().optimizer.clip_norm is None


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("sgd", "trust_coefficient", "0.1"),
        ("sgd", "beta1", "0.9"),
        ("lars", "nesterov", "false"),
        ("lars", "epsilon", "0.1"),
        ("adamw", "momentum", "0.9"),
        ("adamw", "nesterov", "true"),
        ("adamw", "regularisation", "l1"),
        ("lars", "regularisation", "l2"),
        ("adam", "rho", "0.9"),
        ("adagrad", "momentum", "0.9"),
    ],
)
def test_optimizer_with_a_key_that_it_does_not_read_is_refused(
    name: str, key: str, value: str, refusal: Refusal
) -> None:
    message = refusal(f"optimizer.name={name}", f"optimizer.{key}={value}")
    read = ", ".join(OPTIMIZER_DEFAULTS[name])
    assert f"[optimizer]: optimizer '{name}' does not read {key}: " in message
    assert message.endswith(f"leave out all but {read}, clip_norm and clip_value")


@pytest.mark.parametrize("name", OPTIMIZER_DEFAULTS)
def test_written_optimizer_is_read_back_equal(name: str, load: Load) -> None:
    config = load(f"optimizer.name={name}", "optimizer.weight_decay=0.125")
    assert load(text=to_toml(config)) == config
    assert with_workers(config, 1).optimizer == config.optimizer
