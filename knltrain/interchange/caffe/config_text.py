"""The TOML of an imported solver: each number with the field and line that it comes from."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import tomli_w

from knltrain.interchange.caffe.net import CaffeNet
from knltrain.interchange.caffe.settings import Setting

_ORDER: Final = (
    "network",
    "data",
    "train",
    "loss",
    "optimizer",
    "learning_rate",
    "exchange",
    "evaluation",
    "checkpoint",
)
_WIDTH: Final = 100


def tables_of(settings: Sequence[Setting]) -> dict[str, Any]:
    """The settings as tables of a configuration."""
    tables: dict[str, Any] = {}
    for each in settings:
        table, _, key = each.key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[key] = each.value
    return tables


def config_text(
    solver: str, net: str, settings: Sequence[Setting], found: CaffeNet, notes: Sequence[str]
) -> str:
    """The text of a configuration with comments, and the net's layers and notes as comments."""
    names = {path: Path(path).name for path in (net, solver)}
    head = [
        f"# A run of Caffe, from {_line(names[solver])} by `knltrain import-caffe`.",
        "# Lines are those of that file, and those of the net and of its layers are of",
        f"# {_line(names[net])}.",
    ]
    if notes:
        head += ["#", "# What was dropped or differs:"]
    for note in notes:
        for path, name in names.items():
            note = note.replace(f"{path}:", f"{name}:")
        head += _wrapped(note)
    lines = [*head, ""]
    lines += [_setting(each) for each in settings if "." not in each.key]
    for table in _ORDER:
        inside = [each for each in settings if each.key.startswith(f"{table}.")]
        if inside:
            lines += ["", f"[{table}]", *map(_setting, inside)]
        if table == "network":
            lines += _layers(found)
    return "\n".join(lines) + "\n"


def _setting(each: Setting) -> str:
    key = each.key.rpartition(".")[2]
    text = tomli_w.dumps({key: each.value}).strip()
    return "\n".join(([f"# {_line(each.origin)}"] if each.origin else []) + [text])


def _layers(found: CaffeNet) -> list[str]:
    lines: list[str] = []
    for layer in found.network.layers:
        line = found.places[layer.name].rpartition(":")[2]
        numbers = ", ".join(found.numbers[layer.name])
        text = f"{type(layer).__name__} {layer.name} (line {line})"
        lines += _wrapped(f"{text}: {numbers}" if numbers else text)
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        _line(text), _WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_long_words=False
    )


def _line(text: str) -> str:
    """A text that may stand in a comment: no line breaks or control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
