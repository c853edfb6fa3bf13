from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given
from hypothesis import strategies as st

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.message import Message, Word
from knltrain.interchange.caffe.text_format import parse, read_prototxt


def _values(text: str) -> list[tuple[str, object]]:
    return [(field.name, field.value) for field in parse(text, "a").fields]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", 1),
        ("a: -1", -1),
        ("a: - 1", -1),
        ("a: 0x1F", 31),
        ("a: 017", 15),
        ("a: 1.", 1.0),
        ("a: .5f", 0.5),
        ("a: 1e-3", 1e-3),
        ("a: -inf", -math.inf),
        ("a: 'x' \"y\"", "xy"),
        (r'a: "\303\274\n\x41\\"', "ü\nA\\"),
        ("a: 'it''s'", "its"),
        ("a: MAX", Word("MAX")),
        ("a: true", Word("true")),
        ("# comment\na # more\n: 3;", 3),
    ],
)
def test_values_of_all_forms_are_read(text: str, value: object) -> None:
    ((_, found),) = _values(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    ["a { b: 1 c: 2 }", "a: { b: 1, c: 2 }", "a < b: 1; c: 2; >", "a{b:1 c:2}"],
)
def test_messages_have_any_bracket_and_separator(text: str) -> None:
    ((_, found),) = _values(text)
    assert isinstance(found, Message)
    assert [(each.name, each.value) for each in found.fields] == [("b", 1), ("c", 2)]


def test_lists_are_fields_one_by_one_each_with_its_line() -> None:
    found = parse('bottom: ["a",\n "b"]\ndim: []\nparam [{ a: 1 },\n{ a: 2 }]', "a").fields
    assert [(each.name, each.line) for each in found] == [
        ("bottom", 1),
        ("bottom", 2),
        ("param", 4),
        ("param", 5),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer {\n  name: 'a'\n", "a:3:1: the end of the file: .* or '}' for line 1"),
        ("layer <\n }", "a:2:2: '}': expected the name of a field, or '>' for line 1"),
        ("}", "a:1:1: '}': expected the name of a field"),
        ("a 1", "a:1:3: '1': expected ':' or '{' after 'a'"),
        ("a: ", "a:1:4: the end of the file: expected a value of 'a'"),
        ("a: -MAX", "'MAX': expected a value of 'a'"),
        ("a: [1 2]", "a:1:7: '2': expected ',' or ']' in a list"),
        ("a: 'open\n'", "a:1:4: ''': expected a field"),
        ("a: 1x", "a:1:4: '1': expected a field"),
        ("a: 08", "a:1:4: '08': a number that begins with 0 is octal"),
        ("a: " + "9" * 30, "at most 64 bits"),
        (r"a: '\q'", r"'\\q' is no escape"),
        (r"a: '\777'", r"'\\777' is no escape"),
        (r"a: '\xff'", "expected text in UTF-8"),
        ("[ext]: 1", r"a:1:1: '\[': expected the name of a field"),
        ("a {" * 200, "nested deeper than 100"),
    ],
)
def test_what_is_no_text_format_is_named_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text, "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"none.prototxt cannot be read \(No such file or directory\): expected a .prototxt"),
        (b"name: '\xff'", "not UTF-8 text at byte 7"),
    ],
)
def test_file_that_cannot_be_read_is_named(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "none.prototxt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_prototxt(path)


def test_byte_order_mark_is_no_field(tmp_path: Path) -> None:
    path = tmp_path / "a.prototxt"
    path.write_bytes(b"\xef\xbb\xbfname: 'a'")
    assert read_prototxt(path).text("name") == "a"


def test_much_text_takes_time_in_proportion() -> None:
    def seconds(times: int) -> float:
        begun = time.process_time()
        found = parse("# a comment of some length, and more of it\nname: 'a'\n" * times, "a")
        assert found.fields[-1].line == 2 * times
        return time.process_time() - begun

    seconds(1000)
    assert seconds(20_000) < 20 * 5 * max(seconds(1000), 1e-3)


def _test_message() -> Any:
    """A class of protocol buffers with fields of some types, as an independent reader."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="test.proto", package="test")
    told = file.message_type.add(name="M")
    for number, (name, kind) in enumerate(
        [("i", kinds.TYPE_INT64), ("d", kinds.TYPE_DOUBLE), ("s", kinds.TYPE_STRING)], 1
    ):
        told.field.add(name=name, number=number, type=kind, label=kinds.LABEL_REPEATED)
    told.field.add(
        name="m", number=4, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED, type_name=".test.M"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.M"))


_CLASS = _test_message()


def _as_lists(found: Any) -> dict[str, list[Any]]:
    return {
        "i": list(found.i),
        "d": list(found.d),
        "s": list(found.s),
        "m": [_as_lists(each) for each in found.m],
    }


def _ours(found: Message) -> dict[str, list[Any]]:
    return {
        "i": found.wholes("i"),
        "d": found.numbers("d"),
        "s": found.texts("s"),
        "m": [_ours(each) for each in found.messages("m")],
    }


_MESSAGES: Any = st.deferred(
    lambda: st.fixed_dictionaries(
        {
            "i": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
            "d": st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
            "s": st.lists(st.text(), max_size=3),
            "m": st.lists(_MESSAGES, max_size=2),
        }
    )
)


@given(_MESSAGES, st.booleans())
def test_what_protocol_buffers_write_is_read_as_they_read_it(
    content: dict[str, Any], one_line: bool
) -> None:
    text = text_format.MessageToString(_CLASS(**content), as_one_line=one_line)
    assert _ours(parse(text, "a")) == content
    assert _as_lists(text_format.Parse(text, _CLASS())) == content


@given(st.text(alphabet="a1.-:{}<>[]'\"\\# \n,;x", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text, "file")
    except ConfigError as error:
        assert str(error).startswith("file:")
    else:
        assert isinstance(found, Message)
