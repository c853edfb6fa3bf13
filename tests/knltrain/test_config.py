"""A run description is read whole or refused with the key, the value and the way out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from knltrain.config import RunConfig, load_config, to_toml, with_workers
from knltrain.errors import ConfigError

CONFIGS = Path(__file__).parents[2] / "configs"
SMALLEST = """
[network]
name = "lenet"
[data]
name = "digits"
[train]
epochs = 2
batch = 64
[learning_rate]
base = 0.01
"""

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Reads a TOML text with overrides."""

    def read(*overrides: str, text: str = SMALLEST) -> RunConfig:
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, overrides)

    return read


@pytest.fixture
def refusal(load: Load) -> Refusal:
    """The message that a TOML text with overrides is refused with."""

    def read(*overrides: str, text: str = SMALLEST) -> str:
        with pytest.raises(ConfigError) as refused:
            load(*overrides, text=text)
        return str(refused.value)

    return read


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


@pytest.mark.parametrize("name", ["lenet_digits", "lenet_mnist"])
def test_shipped_configs_are_valid_and_comment_every_value(name: str) -> None:
    path = CONFIGS / f"{name}.toml"
    assert load_config(path).name == name
    lines = path.read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert before.startswith("# "), line


@pytest.mark.parametrize("name", ["lenet_digits", "lenet_mnist"])
def test_toml_written_is_read_back_equal(name: str, load: Load) -> None:
    config = load_config(CONFIGS / f"{name}.toml")
    assert load(text=to_toml(config)) == config


def test_toml_written_keeps_lists_and_odd_text(load: Load) -> None:
    config = load(
        "learning_rate.policy=multistep",
        "learning_rate.gamma=0.1",
        "learning_rate.step_values=[10, 20]",
        'data.root="a \\"b\\" \\\\ é"',
    )
    assert config.learning_rate.step_values == (10, 20)
    assert config.data.root == 'a "b" \\ é'
    assert load(text=to_toml(config)) == config


def test_toml_written_is_complete(load: Load) -> None:
    written = to_toml(load())
    assert "communication_period = 1" in written
    assert "timeout_seconds = 60.0" in written


def test_config_cannot_be_changed(load: Load) -> None:
    config = load()
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 2


def test_every_key_has_a_description() -> None:
    for name, field in RunConfig.model_fields.items():
        keys = getattr(field.annotation, "model_fields", None) or {name: field}
        for key, each in keys.items():
            assert each.description, f"{name}.{key}"


# Overrides


def test_override_replaces_numbers_and_takes_bare_words_as_strings(load: Load) -> None:
    config = load("seed=7", "backend.name=torch", "data.root=/data/mnist", "placement.pin=false")
    assert (config.seed, config.backend.name, config.data.root) == (7, "torch", "/data/mnist")
    assert config.placement.pin is False


def test_override_of_steps_replaces_epochs_and_back(load: Load) -> None:
    assert load("train.steps=5").train.epochs is None
    assert load("train.steps=5", "seed=3").train.steps == 5
    steps = SMALLEST.replace("epochs = 2", "steps = 2")
    assert load("train.epochs=5", text=steps).train.steps is None


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


# Refusals


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read \(No such file"):
        load_config(tmp_path / "nowhere.toml")


def test_broken_toml_names_file_and_line(refusal: Refusal) -> None:
    message = refusal(text="seed = \n")
    assert "run.toml: not valid TOML" in message
    assert "line 1" in message


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"run\.toml: not UTF-8 text at byte 8"):
        load_config(path)


def test_unknown_key_is_named_with_the_one_that_was_meant(refusal: Refusal) -> None:
    message = refusal("train.bacth=3")
    assert "run.toml: unknown key 'train.bacth'" in message
    assert message.endswith("did you mean 'train.batch'?")


def test_unknown_table_is_named_with_the_one_that_was_meant(refusal: Refusal) -> None:
    assert refusal("exchnage.method=none").endswith("did you mean 'exchange'?")


def test_key_outside_its_table_is_pointed_to_it(refusal: Refusal) -> None:
    assert refusal("keep=3").endswith("did you mean 'checkpoint.keep'?")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=one", "seed = 'one': expected to be a valid integer"),
        ("seed=-1", "seed = -1: expected to be greater than or equal to 0"),
        ("train.batch=0", "train.batch = 0: expected to be greater than or equal to 1"),
        ("train.batch=6.5", "train.batch = 6.5: expected to be a valid integer"),
        ("train.batch=true", "train.batch = True: expected to be a valid integer"),
        ("workers=0", "workers = 0: expected to be greater than or equal to 1 or to be 'auto'"),
        ("workers=many", "workers = 'many': expected to be a valid integer or to be 'auto'"),
        ("backend.threads=0", "backend.threads = 0: expected to be greater"),
        ("learning_rate.base=0", "learning_rate.base = 0: expected to be greater than 0"),
        ("learning_rate.base=nan", "learning_rate.base = nan: expected to be a finite number"),
        ("learning_rate.base=inf", "learning_rate.base = inf: expected to be a finite number"),
        ("learning_rate.policy=cosin", "learning_rate.policy = 'cosin': expected to be 'fixed', "),
        ("optimizer.momentum=1", "optimizer.momentum = 1: expected to be less than 1"),
        ("optimizer.momentum=nan", "optimizer.momentum = nan: expected to be"),
        ("exchange.moving_rate=0", "exchange.moving_rate = 0: expected to be greater than 0"),
        ("exchange.segment=file", "segment = 'file': expected to be 'shm', 'memfd' or"),
        ("exchange.timeout_seconds=0", "exchange.timeout_seconds = 0: expected to be greater"),
        ("placement.pin=1", "placement.pin = 1: expected to be a valid boolean"),
        ("name=../up", "name = '../up': expected to match pattern"),
        ("network.name=5", "network.name = 5: expected to be a valid string"),
        ("learning_rate.step_values=[1, x]", "not valid TOML"),
        ("learning_rate.step_values=[1, 0]", "learning_rate.step_values[1] = 0: expected to be"),
    ],
)
def test_wrong_value_is_named_with_what_was_expected(
    override: str, message: str, refusal: Refusal
) -> None:
    assert message in refusal(override)


def test_all_wrong_keys_are_reported_at_once(refusal: Refusal) -> None:
    lines = refusal("seed=-1", "train.batch=0", "colour=red").splitlines()
    assert len(lines) == 3
    assert all("run.toml: " in line for line in lines)


def test_missing_key_is_named_with_its_meaning(refusal: Refusal) -> None:
    message = refusal("train.batch=")
    assert "train.batch is missing: images per step over all workers" in message


def test_missing_table_is_named(refusal: Refusal) -> None:
    assert "data is missing" in refusal(text=SMALLEST.replace('[data]\nname = "digits"\n', ""))


def test_neither_steps_nor_epochs_is_refused(refusal: Refusal) -> None:
    text = SMALLEST.replace("epochs = 2\n", "")
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


@pytest.mark.parametrize(("batch", "fitting"), [(65, 63), (2, 3)])
def test_batch_that_workers_cannot_share_is_refused(
    batch: int, fitting: int, refusal: Refusal
) -> None:
    message = refusal("workers=3", f"train.batch={batch}")
    assert f"train.batch = {batch} images do not divide evenly among 3 workers" in message
    assert message.endswith(f"such as {fitting}")


def test_moving_rate_that_overshoots_with_the_workers_is_refused(
    load: Load, refusal: Refusal
) -> None:
    assert load("workers=4", "exchange.moving_rate=0.25").exchange.moving_rate == 0.25
    message = refusal("workers=4", "exchange.moving_rate=0.26")
    assert "expected at most 1 / workers = 0.25" in message
    assert "0.9 / workers = 0.225" in message


def test_workers_decided_later_are_checked_like_given_ones(load: Load) -> None:
    config = load("exchange.moving_rate=0.5")
    assert with_workers(config, 2).workers == 2
    with pytest.raises(ConfigError, match="64 images do not divide evenly among 3 workers"):
        with_workers(config, 3)
    with pytest.raises(ConfigError, match=r"exchange\.moving_rate = 0\.5 with 4 workers"):
        with_workers(config, 4)
