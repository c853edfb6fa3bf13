"""What runs were trained with: where they must be alike to be compared, and what else differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from knltrain.config import load_config
from knltrain.errors import ConfigError, RunFolderError

OF_RESULT: Final = ("network", "data", "method", "backend")

_DECIDING: Final = (*OF_RESULT, "device", "precision", "data.image", "data.side_pixels")
"""Of these depends what an image costs."""

_LEFT_OUT: Final = (
    *("train.batch", "network.name", "data.name", "exchange.method", "backend.name"),
    *("backend.threads", "backend.precision"),
)
"""The batch is what scaling changes; the others have names of their own."""

_FOLLOWS: Final = "exchange.moving_rate"
"""Is written as it follows from the number of workers."""


def settings_of(folder: Path, result: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a run, by name, but its own name and seed, its workers, nodes and batch.

    Raises RunFolderError where the run's configuration cannot be read.
    """
    try:
        config = load_config(folder / "config.toml")
    except ConfigError as error:
        raise RunFolderError(f"{error}; runs are compared by the config.toml of each") from error
    tables = {
        f"{table}.{key}": value
        for table, keys in config.model_dump(mode="json").items()
        if isinstance(keys, dict)
        for key, value in keys.items()
    }
    if result.get("nodes", 1) == 1:
        del tables["exchange.between_nodes"]
    return {
        **{name: result.get(name) for name in OF_RESULT},
        "device": config.backend.device.partition(":")[0],
        "precision": config.backend.precision,
        "threads of a worker": result.get("threads"),
        **{key: value for key, value in tables.items() if key not in _LEFT_OUT},
    }


def differences(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A note for each setting in which runs of these names differ, with its values.

    Raises RunFolderError for runs that cannot be compared.
    """
    notes = []
    for key in dict.fromkeys(chain.from_iterable(settings)):
        if key == _FOLLOWS:
            continue
        first_of = dict[str, str]()
        for name, each in zip(names, settings, strict=True):
            if key in each:
                value = "none" if each[key] is None else str(each[key])
                first_of.setdefault(value, name)
        if len(first_of) < 2:
            continue
        told = ", ".join(f"{value} ({name})" for value, name in first_of.items())
        if key in _DECIDING:
            raise RunFolderError(
                f"runs that differ in {key}: {told}; expected runs that differ in workers, nodes "
                "and batches alone"
            )
        notes.append(f"note: runs differ in {key}: {told}")
    return notes
