"""Control messages between processes, read as untrusted bytes.

A message is JSON in UTF-8. Whatever the bytes, reading takes bounded time, memory and depth, and
ends in a value or in a `MessageError`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

LONGEST_BYTES: Final = 2**20
DEEPEST: Final = 16
LONGEST_NUMBER: Final = 40

_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
"""Matches also a string without its end: else the time to scan it would grow quadratically."""

Fields = Mapping[str, tuple[type, ...]]
"""The keys that a message must have, and the allowed types of their values."""


class MessageError(ValueError):
    """Bytes that are no message, or a message that is not expected."""


def encoded(message: Any) -> bytes:
    """Return a message as bytes; MessageError if the receiver would refuse them."""
    text = json.dumps(message, allow_nan=False).encode("ascii")
    decoded(text)
    return text


def decoded(text: bytes) -> Any:
    """Return the message in ``text``; MessageError if it is none.

    Also refuses what JSON parsers read differently or reject: duplicate keys, NaN and infinities,
    unpaired surrogates.
    """
    if len(text) > LONGEST_BYTES:
        raise MessageError(f"{len(text)} bytes: expected at most {LONGEST_BYTES}")
    _check_depth(text)
    try:
        found = json.loads(
            text.decode("utf-8"),
            parse_constant=_refuse,
            parse_int=lambda digits: int(_short(digits)),
            parse_float=_finite,
            object_pairs_hook=_each_once,
        )
        if b"\\u" in text:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise MessageError(f"no message: {error}") from None
    return found


def checked(message: Any, fields: Fields) -> dict[str, Any]:
    """Return the message if it has all of ``fields`` (it may have more); else MessageError.

    Types must match exactly: True is no int.
    """
    if not isinstance(message, dict):
        raise MessageError(f"a {type(message).__name__}: expected an object")
    for key, kinds in fields.items():
        if key not in message or type(message[key]) not in kinds:
            raise MessageError(f"'{key}' is missing or of the wrong type")
    return message


def _check_depth(text: bytes) -> None:
    """Refuse deep nesting before the recursive parser sees it."""
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        bracket = token[0]
        depth += (bracket in (b"[", b"{")) - (bracket in (b"]", b"}"))
        if depth > DEEPEST:
            raise MessageError(f"nested deeper than {DEEPEST} levels")


def _refuse(constant: str) -> None:
    raise MessageError(f"{constant} is no number")


def _short(digits: str) -> str:
    if len(digits) > LONGEST_NUMBER:
        raise MessageError(f"a number of {len(digits)} digits")
    return digits


def _finite(digits: str) -> float:
    number = float(_short(digits))
    if not math.isfinite(number):
        raise MessageError(f"{digits} is too large")
    return number


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MessageError("a key comes twice")
    return found
