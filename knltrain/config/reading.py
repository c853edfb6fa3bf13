"""Reads a `RunConfig` from a TOML file, and writes it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from knltrain.config.explaining import explain
from knltrain.config.overrides import replace_keys
from knltrain.config.run import RunConfig
from knltrain.config.toml import tomllib
from knltrain.errors import ConfigError


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a configuration, with single keys replaced by `overrides` such as "train.epochs=5".

    The value of an override is TOML, or else taken as a string; without a value the key is removed.
    train.steps replaces train.epochs and vice versa, and so do network.module and network.name.
    Raises ConfigError with the file and all wrong keys.
    """
    path = Path(path)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}): give a TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{path}: tables or lists are nested too deep") from None
    replace_keys(tables, overrides)
    return _validated(tables, str(path))


def with_workers(config: RunConfig, workers: int, nodes: int | None = None) -> RunConfig:
    """Return the configuration with the number of workers set, and of computers, if given.

    Raises ConfigError if the batch does not divide evenly.
    """
    decided = {"workers": workers, "nodes": config.total_nodes if nodes is None else nodes}
    return _validated(config.model_dump() | decided, f"run '{config.name}'")


def with_data(config: RunConfig, given: Sequence[str]) -> RunConfig:
    """The configuration with [data] made of `given` alone, such as "name=folder", "root=/data".

    Raises ConfigError for what is not KEY=VALUE, and for wrong keys and values.
    """
    tables: dict[str, Any] = {"data": {}}
    replace_keys(tables, [f"data.{each}" for each in given])
    return _validated(config.model_dump() | tables, "another data set")


def to_toml(config: RunConfig) -> str:
    """Return the configuration with all defaults as TOML that `load_config` reads back equal."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def _validated(tables: Mapping[str, Any], source: str) -> RunConfig:
    try:
        return RunConfig.model_validate(tables)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {line}" for line in explain(error))) from error
