"""What each table's keys may be, alone and together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from knltrain.config import RunConfig, to_toml, with_workers

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
    assert "backend.engine = 'onednn': expected to be 'eager', 'compile' or 'ipex'" in unknown


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ('signals=["SIGKILL"]', "'SIGKILL': expected to be 'SIGHUP', 'SIGINT', 'SIGTERM',"),
        ("signals=SIGTERM", "preemption.signals = 'SIGTERM': expected to be a list"),
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


def test_weights_of_classes_are_above_0_and_of_softmax(load: Load, refusal: Refusal) -> None:
    assert load().loss.class_weights is None
    assert load("loss.class_weights=balanced").loss.class_weights == "balanced"
    assert load("loss.class_weights=[1, 0.5]").loss.class_weights == (1.0, 0.5)
    assert "loss.class_weights" in refusal("loss.class_weights=[1, 0]")
    assert "'balanced' or to be a list" in refusal("loss.class_weights=equal")
    for wrong in ("1e-320", "1e39", "inf", "nan"):  # 0 or infinite in float32
        assert "loss.class_weights[1] = " in refusal(f"loss.class_weights=[1, {wrong}]")
        assert "loss.auxiliary_weights[0] = " in refusal(f"loss.auxiliary_weights=[{wrong}]")
    told = refusal("loss.class_weights=balanced", "loss.kind=mean_squared_error")
    assert "class_weights = 'balanced' is of kind 'softmax_cross_entropy'" in told
    told = refusal("loss.class_weights=[]", "loss.kind=sigmoid_cross_entropy")
    assert "class_weights = () is of kind 'softmax_cross_entropy'" in told
    told = refusal("loss.label_smoothing=0.1", "loss.kind=sigmoid_cross_entropy")
    assert "label_smoothing = 0.1 is of kind" in told


def test_batches_are_made_ahead_by_a_number_of_cores_or_as_the_machine_has_them(
    load: Load, refusal: Refusal
) -> None:
    assert (load().placement.data_cores, load().data.batches_ahead) == (0, 3)
    assert load("placement.data_cores=auto").placement.data_cores == "auto"
    assert load("placement.data_cores=2", "data.batches_ahead=4").data.batches_ahead == 4
    assert "placement.data_cores = -1" in refusal("placement.data_cores=-1")
    for wrong in (0, 65):
        assert f"data.batches_ahead = {wrong}" in refusal(f"data.batches_ahead={wrong}")
