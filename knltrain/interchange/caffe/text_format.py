"""Reads the text format of protocol buffers (.prototxt), and keeps the line of every field.

Any field may be there: `Message` says later which were read. The grammar is that of
protobuf.dev, "Text Format Language", without extensions and `Any`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, final

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.message import Field, Message, Value, Word

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|\#[^\n]*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)(?![\w.]))"
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"|(?P<symbol>[{}<>\[\]:;,-])",
    re.ASCII,
)
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|.)", re.DOTALL)
_LETTERS: Final = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    **{mark: mark for mark in (b"\\", b"'", b'"', b"?")},
}
_ENDS: Final = {"{": "}", "<": ">"}
_DEEPEST: Final = 100
"""The limit of protocol buffers, too."""


class _Token(NamedTuple):
    kind: str
    text: str
    line: int
    column: int


def read_prototxt(path: Path) -> Message:
    """The message of a file in text format; ConfigError with line and column where it is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): expected a .prototxt of Caffe"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text at byte {error.start}") from error
    return parse(text, str(path))


def parse(text: str, file: str) -> Message:
    """The message of a text; `file` names it in messages."""
    return _Parser(text, file).message("", None, 0)


@final
class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._tokens = self._all(text)
        self._next = next(self._tokens)

    def _all(self, text: str) -> Iterator[_Token]:
        place, line, begin = 0, 1, 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                token = _Token("", text[place], line, place - begin + 1)
                self._refuse(token, "expected a field, a value, a bracket or a comment (#)")
            kind, content = found.lastgroup or "", found.group()
            if kind == "space":
                if breaks := content.count("\n"):
                    line += breaks
                    begin = place + content.rindex("\n") + 1
            else:
                yield _Token(kind, content, line, place - begin + 1)
            place = found.end()
        while True:
            yield _Token("end", "the end of the file", line, place - begin + 1)

    def _refuse(self, token: _Token, expected: str) -> NoReturn:
        told = token.text if token.kind == "end" else f"'{token.text[:40]}'"
        raise ConfigError(f"{self._file}:{token.line}:{token.column}: {told}: {expected}")

    def _take(self) -> _Token:
        token, self._next = self._next, next(self._tokens)
        return token

    def _take_if(self, *symbols: str) -> bool:
        if self._next.kind == "symbol" and self._next.text in symbols:
            self._take()
            return True
        return False

    def message(self, name: str, opened: _Token | None, depth: int) -> Message:
        """The fields up to the bracket that closes the one `opened`, or to the end."""
        fields: list[Field] = []
        begin = opened or self._next
        end = None if opened is None else _ENDS[opened.text]
        if depth > _DEEPEST:
            self._refuse(begin, f"messages are nested deeper than {_DEEPEST}")
        while True:
            token = self._take()
            if token.kind == "end" and opened is None:
                return Message(self._file, begin.line, name, tuple(fields))
            if end is not None and token[:2] == ("symbol", end):
                return Message(self._file, begin.line, name, tuple(fields))
            if token.kind != "word":
                closing = f", or '{end}' for line {begin.line}" if end else ""
                self._refuse(token, f"expected the name of a field{closing}")
            fields += self._field(token, depth)
            self._take_if(",", ";")

    def _field(self, name: _Token, depth: int) -> list[Field]:
        colon = self._take_if(":")
        if not self._take_if("["):
            return [Field(name.text, name.line, self._value(name, colon, depth))]
        values: list[Field] = []
        while not self._take_if("]"):
            if values and not self._take_if(","):
                self._refuse(self._next, "expected ',' or ']' in a list")
            line = self._next.line
            values.append(Field(name.text, line, self._value(name, colon, depth)))
        return values

    def _value(self, name: _Token, colon: bool, depth: int) -> Value:
        token = self._take()
        if token.kind == "symbol" and token.text in _ENDS:
            return self.message(name.text, token, depth + 1)
        if not colon:
            self._refuse(token, f"expected ':' or '{{' after '{name.text}'")
        if token.kind == "text":
            parts = [self._unescaped(token)]
            while self._next.kind == "text":
                parts.append(self._unescaped(self._take()))
            try:
                return b"".join(parts).decode()
            except UnicodeDecodeError:
                self._refuse(token, "expected text in UTF-8")
        sign = 1
        if token[:2] == ("symbol", "-"):
            sign, token = -1, self._take()
        if token.kind == "number":
            return sign * self._number(token)
        if token.kind == "word":
            lower = token.text.lower()
            if lower in ("inf", "infinity", "nan"):
                return sign * float(lower)
            if sign == 1:
                return Word(token.text)
        return self._refuse(token, f"expected a value of '{name.text}'")

    def _number(self, token: _Token) -> int | float:
        text = token.text
        if text[:2].lower() == "0x":
            return int(text, 16)
        if not text.isdigit():
            return float(text.rstrip("fF"))
        if len(text) > 1 and text[0] == "0":
            try:
                return int(text, 8)
            except ValueError:
                self._refuse(token, "a number that begins with 0 is octal: expected digits to 7")
        if len(text) > 20:
            self._refuse(token, "expected a number of at most 64 bits")
        return int(text)

    def _unescaped(self, token: _Token) -> bytes:
        def escape(found: re.Match[bytes]) -> bytes:
            what = found.group(1)
            if what in _LETTERS:
                return _LETTERS[what]
            if what[:1] in b"xX" and len(what) > 1:
                return bytes([int(what[1:], 16)])
            if not what.isdigit() or int(what, 8) > 0xFF:
                self._refuse(token, f"'\\{what.decode()}' is no escape")
            return bytes([int(what, 8)])

        # Escapes are those of bytes: "\303\274" is ü.
        return _ESCAPE.sub(escape, token.text[1:-1].encode())
