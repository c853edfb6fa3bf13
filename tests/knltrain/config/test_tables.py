"""What each table's keys may be, alone and together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from knltrain.assembly import OPTIMIZERS
from knltrain.config import RunConfig, to_toml, with_workers
from knltrain.config.tables import OPTIMIZER_DEFAULTS

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]

NO_DECAY = {"weight_decay": 0.0, "regularisation": "l2"}


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
    assert config.backend.engine == "eager"
    assert config.optimizer.name == "sgd"
    assert config.evaluation.every_epochs == 1
    assert (config.checkpoint.every_epochs, config.checkpoint.keep) == (0, 2)
    assert config.checkpoint.every_minutes == 10
    assert config.preemption.signals == ("SIGTERM", "SIGUSR1")
    assert config.preemption.checkpoint_signals == ("SIGUSR2",)
    assert config.placement.pin


def test_period_is_in_epochs_unless_steps_are_given(load: Load) -> None:
    for table in ("evaluation", "checkpoint"):
        epochs, steps = f"{table}.every_epochs=0.5", f"{table}.every_steps=7"
        assert getattr(load(epochs), table).period(48) == 24
        both = load(epochs, steps)
        assert getattr(both, table).period(48) == 7
        assert getattr(load(text=to_toml(both)), table).period(48) == 7


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


def test_micro_batch_is_a_number_or_measured_and_of_the_cpu_backend(
    load: Load, refusal: Refusal
) -> None:
    assert load().backend.micro_batch == 0
    assert load("backend.micro_batch=16").backend.micro_batch == 16
    assert load("backend.micro_batch=auto").backend.micro_batch == "auto"
    for wrong in ("-1", "half", "1.5"):
        assert "backend.micro_batch = " in refusal(f"backend.micro_batch={wrong}")
    message = refusal("backend.name=torch", "backend.micro_batch=16")
    assert "[backend]: micro_batch = 16 is of backend 'cpu'" in message


def test_engine_is_one_of_the_torch_backend(load: Load, refusal: Refusal) -> None:
    assert load("backend.name=torch", "backend.engine=ipex").backend.engine == "ipex"
    message = refusal("backend.engine=ipex")
    assert "[backend]: engine 'ipex' runs the modules of backend 'torch', not 'cpu'" in message
    unknown = refusal("backend.name=torch", "backend.engine=onednn")
    assert "backend.engine = 'onednn': expected to be 'eager' or 'ipex'" in unknown


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ('signals=["SIGKILL"]', "'SIGKILL': expected to be 'SIGHUP', 'SIGINT', 'SIGTERM',"),
        ("signals=SIGTERM", "preemption.signals = 'SIGTERM': expected to be a valid tuple"),
        ("grace_seconds=0", "preemption.grace_seconds = 0: expected to be greater than 0"),
        ("reserve_seconds=-1", "preemption.reserve_seconds = -1: expected to be greater"),
        ("grace=1", "unknown key 'preemption.grace': expected one of"),
        (
            'checkpoint_signals=["SIGUSR1"]',
            "[preemption]: SIGUSR1 is among signals and among checkpoint_signals: expected it in "
            "one of them",
        ),
    ],
)
def test_preemption_that_cannot_be_is_refused(override: str, said: str, refusal: Refusal) -> None:
    assert said in refusal(f"preemption.{override}")


def test_signals_of_preemption_are_written_back(load: Load) -> None:
    chosen = load('preemption.signals=["SIGINT", "SIGTERM"]', "preemption.checkpoint_signals=[]")
    assert chosen.preemption.signals == ("SIGINT", "SIGTERM")
    assert 'signals = [\n    "SIGINT",\n    "SIGTERM",\n]' in to_toml(chosen)


@pytest.mark.parametrize("key", ["data.root", "runs_folder"])
def test_folders_may_begin_with_a_tilde(
    key: str, load: Load, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for given, expected in (("~/a", "/home/me/a"), ("~", "/home/me"), ("./~", "./~"), ("a~", "a~")):
        config = load(f"{key}={given}")
        assert (config.data.root if key == "data.root" else config.runs_folder) == expected
    message = refusal(f"{key}=~nobody-at-all/a")
    assert "'~nobody-at-all/a': no home folder is known for it" in message
    assert f"{key} = ''" in refusal(f'{key}=""')
    assert "expected a path, which has no NUL in it" in refusal(f'{key}="a\\u0000b"')


def test_frozen_layers_and_multipliers_are_written_and_read_back(
    load: Load, refusal: Refusal, smallest: str
) -> None:
    table = '[[network.multipliers]]\npattern = "fc*"\nlearning_rate = 10.0\n'
    config = load("network.frozen=['conv1*', 'bn1']", text=f"{smallest}\n{table}")
    assert config.network.frozen == ("conv1*", "bn1")
    assert [each.weight_decay for each in config.network.multipliers] == [1.0]
    assert load(text=to_toml(config)) == config
    wrong = table.replace("10.0", "-1.0")
    message = refusal(text=f"{smallest}\n{wrong}")
    assert "network.multipliers[0].learning_rate = -1.0: expected to be greater than" in message
    wrong = table.replace("learning_rate", "learning_rat")
    message = refusal(text=f"{smallest}\n{wrong}")
    assert "unknown key 'network.multipliers[0].learning_rat'" in message
    assert message.endswith("did you mean 'network.multipliers.learning_rate'?")
    message = refusal(text=f"{smallest}\n[[network.multipliers]]\n")
    assert "network.multipliers[0].pattern is missing: layers, such as 'fc*'" in message


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('name = "lenet"\nmodule = "own.py:build"', "name = 'lenet' and module = 'own.py:build': "),
        ('module = "own.py:build"\nclasses = 10', "classes = 10: how many a module has"),
        ('module = "own.py"', "'own.py': expected a file and its function, as my_model.py:build"),
        ('module = "own:build"', "'own:build': expected a file and its function"),
        ('module = "own.py:"', "'own.py:': expected a file and its function"),
        ('module = ""', "'': expected a file and its function"),
        ("", "network.name is missing: network to train"),
    ],
)
def test_network_is_a_name_or_a_function_of_a_file(
    lines: str, said: str, smallest: str, refusal: Refusal
) -> None:
    assert said in refusal(text=smallest.replace('name = "lenet"', lines))


def test_function_of_a_file_stays_the_same_with_a_number_of_workers(
    smallest: str, load: Load
) -> None:
    config = load("network.module=~/own.py:build")
    assert with_workers(config, 2).network == config.network


def test_weights_of_auxiliary_losses_are_above_0(load: Load, refusal: Refusal) -> None:
    assert load().loss.auxiliary_weights is None
    assert load("loss.auxiliary_weights=[0.3, 0.2]").loss.auxiliary_weights == (0.3, 0.2)
    assert "loss.auxiliary_weights[1] = 0.0" in refusal("loss.auxiliary_weights=[0.3, 0.0]")


def test_labels_are_smoothed_by_a_share(load: Load, refusal: Refusal) -> None:
    assert load().loss.label_smoothing == 0.0
    assert load("loss.label_smoothing=0.1").loss.label_smoothing == 0.1
    for wrong in ("1.0", "-0.1", "nan"):
        assert "loss.label_smoothing = " in refusal(f"loss.label_smoothing={wrong}")
