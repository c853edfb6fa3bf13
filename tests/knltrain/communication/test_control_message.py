"""x"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knltrain.communication.control_message import (
    DEEPEST,
    LONGEST_BYTES,
    MessageError,
    checked,
    decoded,
    encoded,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORDS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
).filter(lambda word: "inf" not in repr(word))


@given(WORDS)
def test_what_was_encoded_is_decoded(word: Any) -> None:
    try:
        text = encoded(word)
    except MessageError as error:
        assert "deeper" in str(error)
    else:
        assert decoded(text) == word


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"GET / HTTP/1.1",
        b"\xff",
        b"[" * 100_000,
        b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b'{"a":' * 100_000,
        b'["' + b"[" * 10,
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"9" * 5000,
        b"1." + b"0" * 5000,
        b'{"a": 1, "a": 2}',
        rb'"\ud800"',
        '"a"'.encode("utf-16"),
        b'"' + b"a" * LONGEST_BYTES + b'"',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_message_is_refused_in_one_way(text: bytes) -> None:
    with pytest.raises(MessageError):
        decoded(text)


def test_brackets_within_texts_nest_nothing() -> None:
    word = {"list": "n[1-3] " + "[{" * 1000, "quoted": '"[' * 100, "path": "\\" * 9}
    assert decoded(encoded(word)) == word


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_value_or_a_message_error(text: bytes) -> None:
    with contextlib.suppress(MessageError):
        json.dumps(decoded(text))


def test_long_bytes_take_a_time_that_grows_with_their_length() -> None:
    """Quotes and backslashes are where a careless pattern goes back again and again."""
    seconds = []
    for count in (2**14, 2**18):
        text = b'"\\' * count
        begun = time.perf_counter()
        with pytest.raises(MessageError):
            decoded(text)
        seconds.append(time.perf_counter() - begun)
    assert seconds[1] < 16 * 16 * max(seconds[0], 1e-4)


def test_message_that_the_other_end_would_refuse_is_not_sent() -> None:
    with pytest.raises(MessageError, match=f"expected at most {LONGEST_BYTES}"):
        encoded("a" * LONGEST_BYTES)
    for refused in ("\ud800", 10**50, {1: "a", "1": "b"}):
        with pytest.raises(MessageError):
            encoded(refused)


def test_fields_are_checked_by_their_exact_types_and_more_fields_may_come() -> None:
    fields = {"rank": (int,), "why": (str, type(None))}
    message = {"rank": 1, "why": None, "since": 3.0}
    assert checked(message, fields) == message
    for wrong in (
        [],
        None,
        {},
        {"rank": 1},
        {"rank": True, "why": ""},
        {"rank": 1.0, "why": ""},
        {"rank": "1", "why": ""},
        {"rank": [1], "why": ""},
        {"rank": 1, "why": 2},
    ):
        with pytest.raises(MessageError):
            checked(wrong, fields)
