"""Error messages for invalid configurations that say what is expected."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from knltrain.config.run import RunConfig
from knltrain.config.tables import Table
from knltrain.errors import unknown_name

_TERMS = {"be a valid tuple": "be a list", "be a valid dictionary": "be a table"}
"""Of TOML, for those of Python."""
INDEX = re.compile(r"\[\d+\]")
SUBJECT = re.compile(r"^\w+ should ")  # how pydantic's messages begin


def explain(error: ValidationError) -> list[str]:
    """Return one line for each wrong key; pydantic reports each member of a union separately."""
    problems: dict[str, list[ErrorDetails]] = {}
    for problem in error.errors():
        problems.setdefault(_key(problem["loc"]), []).append(problem)
    return [_explained(key, found) for key, found in problems.items()]


def _explained(key: str, problems: list[ErrorDetails]) -> str:
    kind, message = problems[0]["type"], problems[0]["msg"]
    if kind == "extra_forbidden":
        return unknown_name("key", key, _known_keys(key))
    if kind == "missing":
        return f"{key} is missing{_described(key)}"
    if kind == "value_error":
        cause = message.removeprefix("Value error, ")
        return f"[{key}]: {cause}" if key else cause
    given = problems[0]["input"]
    if kind == "model_type":
        return f"{key} = {given!r}: expected a table, [{key}]"
    wishes = dict.fromkeys(SUBJECT.sub("", problem["msg"]) for problem in problems)
    wishes = {_TERMS.get(wish, wish): None for wish in wishes}
    hint = ""
    if kind == "string_type" and type(given) in (int, float):
        hint = f', in quotes: {key} = "{given}", or --set \'{key}="{given}"\''
    return f"{key} = {given!r}: expected to {' or to '.join(wishes)}{hint}"


def _key(location: tuple[int | str, ...]) -> str:
    """Return the dotted key of a pydantic location, without union members at its end.

    What follows an index is a key of a table in an array of tables. The key of a table whose keys
    are the user's is in quotes.
    """
    tables = _tables()
    depth = 2 if location and location[0] in tables else 1
    key = ".".join(str(part) for part in location[:depth])
    if len(location) > depth == 2:
        field = tables[str(location[0])].model_fields.get(str(location[1]))
        if field is not None and get_origin(field.annotation) is dict:
            return f'{key}."{location[depth]}"'
    for before, part in pairwise(location[depth - 1 :]):
        if isinstance(part, int):
            key += f"[{part}]"
        elif isinstance(before, int):
            key += f".{part}"
    return key


def _tables() -> dict[str, type[Table]]:
    return {
        name: field.annotation
        for name, field in RunConfig.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table)
    }


def _keys() -> dict[str, str]:
    """Description of every key by its dotted name."""
    keys = {name: field.description or "" for name, field in RunConfig.model_fields.items()}
    for name, table in _tables().items():
        for key, field in table.model_fields.items():
            keys[f"{name}.{key}"] = field.description or ""
            for inner in get_args(field.annotation):
                if isinstance(inner, type) and issubclass(inner, Table):
                    for last, member in inner.model_fields.items():
                        keys[f"{name}.{key}.{last}"] = member.description or ""
    return keys


def _known_keys(unknown: str) -> list[str]:
    """Return the keys of the table of `unknown`, and keys of the same last name in others."""
    table, _, last = INDEX.sub("", unknown).rpartition(".")
    parts = {key: key.rpartition(".") for key in _keys()}
    return [key for key, found in parts.items() if found[0] == table or found[2] == last]


def _described(key: str) -> str:
    description = _keys().get(INDEX.sub("", key))
    return f": {description}" if description else ""
