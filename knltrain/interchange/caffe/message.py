"""A message of a .prototxt: its fields with their lines, and which of them have been read.

What has no meaning here stays unread. So no table of all fields is needed: a field that nobody
reads is unknown, and can be named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, final

from knltrain.errors import ConfigError, unknown_name


class Word(str):
    """A value without quotes: the name of an enumeration's value, or true or false."""

    __slots__ = ()


Value: TypeAlias = "int | float | Word | str | Message"

Given = TypeVar("Given")

_FLAGS = {"true": True, "True": True, "t": True, "1": True} | {
    "false": False,
    "False": False,
    "f": False,
    "0": False,
}
_LONGEST_TOLD = 60


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its name, its line in the file, and one value."""

    name: str
    line: int
    value: Value

    @property
    def told(self) -> str:
        """The field as text, shortened."""
        if isinstance(self.value, Message):
            return self.name
        is_text = isinstance(self.value, str) and not isinstance(self.value, Word)
        text = repr(self.value) if is_text else str(self.value)
        return f"{self.name}: {text[:_LONGEST_TOLD]}"


@final
class Message:
    """Fields in their order. Reading one checks its type and count, with ConfigError.

    `title` says in messages what it is, as "layer 'conv1'".
    """

    def __init__(self, file: str, line: int, name: str, fields: tuple[Field, ...]) -> None:
        self.file, self.line, self.name, self.fields = file, line, name, fields
        self.title = ""
        self._read: dict[str, None] = {}

    def error(self, line: int, text: str) -> ConfigError:
        """An error at a line of this message's file."""
        title = f"{self.title}: " if self.title else ""
        return ConfigError(f"{self.place(line)}: {title}{text}")

    def place(self, line: int) -> str:
        """A line of the file, as FILE:LINE."""
        return f"{self.file}:{line}"

    def all(self, name: str) -> tuple[Field, ...]:
        """The fields of this name."""
        self._read[name] = None
        return tuple(field for field in self.fields if field.name == name)

    def one(self, name: str) -> Field | None:
        """The only field of this name, or None; ConfigError if there are several."""
        found = self.all(name)
        if len(found) > 1:
            raise self.error(
                found[1].line,
                f"{name} is given twice, in lines {found[0].line} and {found[1].line}: expected it "
                "once",
            )
        return found[0] if found else None

    def line_of(self, name: str) -> int | None:
        """The line of the first field of this name, None if there is none."""
        return next((field.line for field in self.fields if field.name == name), None)

    def whole(self, name: str, default: Given) -> int | Given:
        """A whole number."""
        field = self.one(name)
        return default if field is None else self._whole(field)

    def wholes(self, name: str) -> list[int]:
        """All whole numbers of this name."""
        return [self._whole(field) for field in self.all(name)]

    def number(self, name: str, default: Given) -> float | Given:
        """A number."""
        field = self.one(name)
        return default if field is None else self._number(field)

    def numbers(self, name: str) -> list[float]:
        """All numbers of this name."""
        return [self._number(field) for field in self.all(name)]

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        field = self.one(name)
        if field is None:
            return default
        is_plain = isinstance(field.value, (Word, int))
        if not is_plain or str(field.value) not in _FLAGS:
            raise self._unfit(field, "true or false")
        return _FLAGS[str(field.value)]

    def text(self, name: str, default: str = "") -> str:
        """A text in quotes."""
        field = self.one(name)
        return default if field is None else self._text(field)

    def texts(self, name: str) -> list[str]:
        """All texts of this name."""
        return [self._text(field) for field in self.all(name)]

    def choice(self, name: str, default: Given, known: Mapping[str, Given]) -> Given:
        """What a word stands for, by the words that are `known`."""
        field = self.one(name)
        if field is None:
            return default
        if not isinstance(field.value, Word) or field.value not in known:
            raise self.error(field.line, unknown_name(name, str(field.value), known))
        return known[field.value]

    def message(self, name: str) -> Message:
        """The message in a field; an empty one if there is none."""
        field = self.one(name)
        empty = Field(name, self.line, Message(self.file, self.line, name, ()))
        return self._message(field or empty)

    def messages(self, name: str) -> list[Message]:
        """All messages of this name."""
        return [self._message(field) for field in self.all(name)]

    def told_numbers(self) -> Iterator[str]:
        """All numbers, also those of messages within, as "stride: 2 (line 7)"."""
        for field in self.fields:
            if isinstance(field.value, Message):
                yield from field.value.told_numbers()
            elif isinstance(field.value, (int, float)):
                yield f"{field.told} (line {field.line})"

    def read_all(self) -> None:
        """Count all fields as read, also those of messages within."""
        for field in self.fields:
            self._read[field.name] = None
            if isinstance(field.value, Message):
                field.value.read_all()

    def unread(self) -> Iterator[tuple[str, Field]]:
        """Fields that nobody has read, each with its path, also those of messages that were."""
        for field in self.fields:
            if field.name not in self._read:
                yield field.name, field
            elif isinstance(field.value, Message):
                yield from ((f"{field.name}.{path}", inner) for path, inner in field.value.unread())

    def _whole(self, field: Field) -> int:
        if not isinstance(field.value, int):
            raise self._unfit(field, "a whole number")
        return field.value

    def _number(self, field: Field) -> float:
        if not isinstance(field.value, (int, float)) or not math.isfinite(field.value):
            raise self._unfit(field, "a number")
        return float(field.value)

    def _text(self, field: Field) -> str:
        if not isinstance(field.value, str) or isinstance(field.value, Word):
            raise self._unfit(field, "a text in quotes")
        return str(field.value)

    def _message(self, field: Field) -> Message:
        if not isinstance(field.value, Message):
            raise self._unfit(field, f"{field.name} {{ ... }}")
        field.value.title = self.title
        return field.value

    def _unfit(self, field: Field, expected: str) -> ConfigError:
        return self.error(field.line, f"{field.told}: expected {expected}")
