from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.text_format import parse


def _message(text: str) -> Message:
    return parse(text, "a.prototxt")


def test_fields_are_read_by_type_and_have_defaults() -> None:
    found = _message("n: 3 x: 0.5 s: 'text' f: true w: MAX n2: 1 n2: 2 m { n: 4 }")
    assert (found.whole("n", 0), found.number("n", 0.0), found.number("x", 0.0)) == (3, 3.0, 0.5)
    assert (found.text("s"), found.flag("f", False), found.choice("w", 0, {"MAX": 1})) == (
        "text",
        True,
        1,
    )
    assert found.wholes("n2") == [1, 2]
    assert found.message("m").whole("n", 0) == 4
    assert (found.whole("a", 7), found.text("a", "b"), found.flag("a", True)) == (7, "b", True)
    assert found.message("none").fields == ()


@pytest.mark.parametrize(
    ("text", "read", "message"),
    [
        ("n: 0.5", lambda m: m.whole("n", 0), "a.prototxt:1: n: 0.5: expected a whole number"),
        ("\nn: 'x'", lambda m: m.number("n", 0), "a.prototxt:2: n: 'x': expected a number"),
        ("n: x", lambda m: m.text("n"), "n: x: expected a text in quotes"),
        ("n: -inf", lambda m: m.number("n", 0), "n: -inf: expected a number"),
        ("n: nan", lambda m: m.numbers("n"), "n: nan: expected a number"),
        ("n: 2", lambda m: m.flag("n", True), "n: 2: expected true or false"),
        ("n: 'true'", lambda m: m.flag("n", True), "n: 'true': expected true or false"),
        ("n: MXA", lambda m: m.choice("n", 0, {"MAX": 1}), "unknown n 'MXA': .* mean 'MAX'"),
        ("n: 1", lambda m: m.message("n"), "n: 1: expected n { ... }"),
        ("n: 1\nn: 2", lambda m: m.whole("n", 0), ":2: n is given twice, in lines 1 and 2"),
    ],
)
def test_field_that_does_not_fit_is_named(
    text: str, read: Callable[[Message], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(_message(text))


def test_fields_that_nobody_read_are_told_also_those_within() -> None:
    found = _message("a: 1\nm { b: 2\nc: 3 }\nd { e: 1 }")
    found.whole("a", 0)
    found.message("m").whole("b", 0)
    assert [(path, each.line) for path, each in found.unread()] == [("m.c", 3), ("d", 4)]
    found.read_all()
    assert list(found.unread()) == []


def test_title_is_said_in_messages_and_goes_to_messages_within() -> None:
    found = _message("m { n: 'x' }")
    found.title = "layer 'a'"
    with pytest.raises(ConfigError, match=r"a.prototxt:1: layer 'a': n: 'x'"):
        found.message("m").whole("n", 0)
