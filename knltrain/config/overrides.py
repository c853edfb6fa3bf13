"""Overrides of single keys of a configuration (`--set KEY=VALUE`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knltrain.config.toml import tomllib
from knltrain.errors import ConfigError

ALTERNATIVES = {
    "network.module": "network.name",
    "network.name": "network.module",
    "train.epochs": "train.steps",
    "train.steps": "train.epochs",
}
"""Keys that replace each other."""


def replace_keys(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    """Change `tables`, as TOML gives them, by overrides such as "train.epochs=5".

    Raises `ConfigError` for an override that is not KEY=VALUE, or whose KEY has a value as a table.
    """
    changes = [_split(override) for override in overrides]
    for key, text in changes:
        if text and key in ALTERNATIVES:
            _table_of(ALTERNATIVES[key], tables).pop(_last(ALTERNATIVES[key]), None)
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
