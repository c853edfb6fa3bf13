"""Single keys replaced by `--set KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from knltrain.config import RunConfig, load_config, to_toml, with_data
from knltrain.errors import ConfigError

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


CONFIGS = Path(__file__).parents[3] / "configs"


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


def test_another_data_set_replaces_the_whole_table() -> None:
    config = load_config(CONFIGS / "lenet_digits.toml", ["data.train_images=9"])
    found = with_data(config, ["name=folder", "root=/a", "test_share=0.5"])
    assert (found.data.name, found.data.root, found.data.test_share) == ("folder", "/a", 0.5)
    assert found.data.train_images is None
    assert found.model_copy(update={"data": config.data}) == config
    for given, said in ((["root=/a"], "data.name is missing"), (["name=1"], "data.name = 1")):
        with pytest.raises(ConfigError, match=f"another data set: {said}"):
            with_data(config, given)
