"""A run description comes from a file and goes into one, whole."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from knltrain.config import RunConfig, load_config, to_toml, with_data
from knltrain.errors import ConfigError

CONFIGS = Path(__file__).parents[3] / "configs"

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


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
