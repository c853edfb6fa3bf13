"""Reads a `RunConfig` from a TOML file with overrides (`--set KEY=VALUE`), and writes it back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from knltrain.config.run import RunConfig
from knltrain.errors import ConfigError

tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


ALTERNATIVES = (
    ("network.module", "network.name"),
    ("train.epochs", "train.steps"),
    ("exchange.moving_rate", "exchange.beta", "exchange.rho"),
)
"""Keys that replace each other."""


def replace_keys(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    """Change `tables`, as TOML gives them, by overrides such as "train.epochs=5".

    Raises `ConfigError` for an override that is not KEY=VALUE, or whose KEY has a value as a table.
    """
    changes = [_split(override) for override in overrides]
    for key, text in changes:
        alike = next((keys for keys in ALTERNATIVES if key in keys), ())
        for other in alike if text else ():
            _table_of(other, tables).pop(_last(other), None)
    for key, text in changes:
        table = _table_of(key, tables)
        if text:
            table[_last(key)] = _parsed(key, text)
        else:
            table.pop(_last(key), None)


def _split(override: str) -> tuple[str, str]:
    key, equals, text = (part.strip() for part in override.partition("="))
    if not equals or not all(key.split(".")):
        raise ConfigError(f"--set {override}: expected KEY=VALUE, such as train.epochs=5")
    return key, text


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _table_of(key: str, tables: dict[str, Any]) -> dict[str, Any]:
    table = tables
    for part in key.split(".")[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {key}: '{part}' is a value, not a table")
    return table


def _parsed(key: str, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        if text[0] in "\"'[{":
            raise ConfigError(f"--set {key}={text}: not valid TOML: {error}") from error
        return text
    return parsed["value"] if len(parsed) == 1 else text


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
    return validated(tables, str(path))


def with_workers(config: RunConfig, workers: int, nodes: int | None = None) -> RunConfig:
    """Return the configuration with the number of workers set, and of computers, if given.

    Raises ConfigError if the batch does not divide evenly.
    """
    decided = {"workers": workers, "nodes": config.total_nodes if nodes is None else nodes}
    return validated(config.model_dump() | decided, f"run '{config.name}'")


def with_data(config: RunConfig, given: Sequence[str]) -> RunConfig:
    """The configuration with [data] made of `given` alone, such as "name=folder", "root=/data".

    Raises ConfigError for what is not KEY=VALUE, and for wrong keys and values.
    """
    tables: dict[str, Any] = {"data": {}}
    replace_keys(tables, [f"data.{each}" for each in given])
    return validated(config.model_dump() | tables, "another data set")


def to_toml(config: RunConfig) -> str:
    """Return the configuration with all defaults as TOML that `load_config` reads back equal."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def validated(tables: Mapping[str, Any], source: str) -> RunConfig:
    """Return the configuration of these tables; ConfigError names `source` and all wrong keys."""
    try:
        return RunConfig.model_validate(tables)
    except ValidationError as error:
        from knltrain.config.explaining import explain

        raise ConfigError("\n".join(f"{source}: {line}" for line in explain(error))) from error
