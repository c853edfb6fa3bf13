"""Run descriptions that are read, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knltrain.config import RunConfig, load_config
from knltrain.errors import ConfigError

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


@pytest.fixture
def smallest() -> str:
    """The shortest description of a run that there can be."""
    return SMALLEST


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., RunConfig]:
    """Reads a TOML text with overrides."""

    def read(*overrides: str, text: str = SMALLEST) -> RunConfig:
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, overrides)

    return read


@pytest.fixture
def refusal(load: Callable[..., RunConfig]) -> Callable[..., str]:
    """The message that a TOML text with overrides is refused with."""

    def read(*overrides: str, text: str = SMALLEST) -> str:
        with pytest.raises(ConfigError) as refused:
            load(*overrides, text=text)
        return str(refused.value)

    return read
