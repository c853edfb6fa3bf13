"""Reads untrusted XML: a damaged or hostile file ends in a clear error.

Nothing outside the text is ever fetched. A text that declares entities is refused: the programs
read here declare none, and nested ones grow without bound ("billion laughs").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from affinity.errors import TopologyError
from affinity.numbers import whole_number as of_digits

_MORE_AFTER_END = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]

DEEPEST = 200
"""Elements nested deeper than this are no description of a machine (hwloc's are below 40)."""


@dataclass(slots=True)
class XmlElement:
    """An element with its line in the file `source`, for errors that lead there."""

    tag: str
    attributes: dict[str, str]
    source: str
    line: int
    children: list[XmlElement] = field(default_factory=list)
    text: str = ""

    def get(self, attribute: str, default: str = "") -> str:
        """The attribute, or `default` where it is not given."""
        return self.attributes.get(attribute, default)

    def number(self, attribute: str) -> int | None:
        """The attribute as a whole number, None where it is not given.

        Raises TopologyError if it is something else, or negative.
        """
        text = self.attributes.get(attribute)
        if text is None:
            return None
        number = whole_number(text)
        if number is None:
            raise self.error(f"{attribute}={text!r} where a whole number was expected")
        return number

    def tagged(self, tag: str) -> Iterator[XmlElement]:
        """The children with this tag, in order."""
        return (child for child in self.children if child.tag == tag)

    def at(self, *tags: str) -> XmlElement | None:
        """The first child with the first tag, in it the first with the next tag, and so on."""
        found: XmlElement | None = self
        for tag in tags:
            found = next(found.tagged(tag), None) if found is not None else None
        return found

    def error(self, what: str) -> TopologyError:
        """An error about this element: in which file and line, and `what` is wrong."""
        return TopologyError(f"{self.source}, line {self.line}: <{self.tag}> has {what}")


def whole_number(text: str) -> int | None:
    """`text` as a number of up to 64 bits, None if it is something else or negative."""
    return of_digits(text.strip(), most_digits=20)


def parse_xml(text: str, source: str) -> XmlElement:
    """The root element of `text`, which came from the file `source`.

    Raises TopologyError, with line and column, if `text` is not XML, ends early, declares
    entities or nests deeper than `DEEPEST`.
    """
    reader = _Reader(source)
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        # Lines count from 1 and columns from 0, as editors do not.
        place = f"line {error.lineno}, column {error.offset + 1}"
        if error.code == _MORE_AFTER_END:
            raise TopologyError(
                f"{source} goes on after its XML has ended, at {place}: one machine was expected "
                "in a file, and nothing behind it"
            ) from None
        reason = expat.ErrorString(error.code)
        raise TopologyError(
            f"{source} is damaged at {place}: {reason}; write or copy it again"
        ) from None
    except UnicodeEncodeError:
        raise TopologyError(f"{source} holds bytes that are no text: copy it again") from None
    return reader.open[0].children[0]


class _Reader:
    """Builds the elements as the parser reads their tags."""

    def __init__(self, source: str) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity
        self.source = source
        self.open = [XmlElement("", {}, source, 0)]

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, self.source, self.parser.CurrentLineNumber)
        if len(self.open) > DEEPEST:
            raise element.error(f"more than {DEEPEST} elements around it: this is no machine")
        self.open[-1].children.append(element)
        self.open.append(element)

    def _end(self, _tag: str) -> None:
        self.open.pop()

    def _text(self, text: str) -> None:
        self.open[-1].text += text

    def _entity(self, name: str, *_rest: object) -> None:
        raise TopologyError(
            f"{self.source}, line {self.parser.CurrentLineNumber}: the XML declares an entity, "
            f"{name!r}, which no description of a machine does: it is refused"
        )
