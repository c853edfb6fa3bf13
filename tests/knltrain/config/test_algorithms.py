"""Algorithms of layers in a configuration, and evaluations and checkpoints that are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.config import RunConfig, load_config
from knltrain.config.reading import to_toml
from knltrain.errors import ConfigError

ASKED = '{ conv1 = "direct", conv2 = { forward = "winograd4" }, "*" = "auto" }'


def loaded(*overrides: str) -> RunConfig:
    return load_config(Path(__file__).parents[3] / "configs/lenet_digits.toml", overrides)


def test_a_configuration_with_algorithms_is_written_and_read(tmp_path: Path) -> None:
    config = loaded(f"backend.algorithms={ASKED}")
    assert config.backend.algorithms["conv2"] == {"forward": "winograd4"}
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert load_config(tmp_path / "config.toml") == config
    assert hash(config) == hash(loaded(f"backend.algorithms={ASKED}"))
    assert hash(config.backend) != hash(loaded().backend)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("backend.name=torch", "expected 'cpu' and 'numba', which alone has several, or none"),
        ("backend.winograd=false", "winograd = false with algorithms: expected one of them"),
    ],
)
def test_what_has_no_algorithms_to_choose_from_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(f"backend.algorithms={ASKED}", override)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('{"conv1"="fft"}', r"""backend.algorithms."conv1" = 'fft': .* or to be a table$"""),
        ('{"*"={"forwards"="direct"}}', r"""backend.algorithms."\*" = .*'forward', 'backward"""),
    ],
)
def test_a_wrong_algorithm_is_named_with_its_layer(given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(f"backend.algorithms={given}")


def test_a_run_is_evaluated_and_kept_at_its_end_or_not_at_all() -> None:
    nothing = ["every_epochs=0", "at_end=false"]
    evaluated = [f"evaluation.{each}" for each in nothing]
    kept = [f"checkpoint.{each}" for each in (*nothing, "every_minutes=0")]
    assert not loaded(*evaluated, *kept).checkpoint.at_end
    with pytest.raises(ConfigError, match="at_end = false, but some before: expected every_epochs"):
        loaded("evaluation.at_end=false", "evaluation.every_epochs=1")
    with pytest.raises(ConfigError, match=r"at_end = false, but some before: .*every_minutes = 0"):
        loaded(*kept[:2])
