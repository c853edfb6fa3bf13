"""Text for terminals: aligned columns, wrapped paragraphs, a fallback for missing characters."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from affinity.cpulist import format_cpulist

WIDTH = 100
"""Columns that prose is wrapped to; tables may be wider."""

_PLAIN = str.maketrans({"├": "|", "└": "`", "│": "|", "─": "-", "→": ">", "·": ".", "…": "~"})


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows of equal length as lines whose cells line up, the `right` columns to the right.

    Columns that are empty in every row are left out.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if position in right else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        ).rstrip()
        for row in rows
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """A head, a rule and rows; columns that are empty in every row are left out, head and all."""
    used = [any(cells) for cells in zip(*rows, strict=True)]
    heads = [word if keep else "" for word, keep in zip(head, used, strict=True)]
    first, *rest = columns([heads, *rows], right)
    return "\n".join((first, "─" * max(map(len, (first, *rest))), *rest))


def paragraph(text: str, lead: str = "", width: int = WIDTH) -> str:
    """`text` wrapped behind `lead`; further lines begin where the first line's text does."""
    blank = " " * len(lead)
    return textwrap.fill(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=blank,
        break_long_words=False,
        break_on_hyphens=False,
    )


def section(title: str, lines: Iterable[str]) -> str:
    """A title with indented lines below it, or nothing if there are none."""
    body = [textwrap.indent(line, "  ") for line in lines]
    return "\n".join((title, *body)) if body else ""


def bullets(notes: Iterable[str]) -> list[str]:
    """One wrapped paragraph for each note, without repetitions."""
    return [paragraph(note, "* ", WIDTH - 2) for note in dict.fromkeys(notes)]


def page(sections: Iterable[str]) -> str:
    """Sections with an empty line between them."""
    return "\n\n".join(filter(None, sections))


def told_of(noun: str, told: Iterable[tuple[int, str]]) -> list[str]:
    """Descriptions of numbered things; equal descriptions are given once.

    ``told_of("node", [(0, "DRAM"), (1, "DRAM")])`` is ``["nodes 0-1  DRAM"]``.
    """
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in told:
        if text:
            numbers[text].append(number)
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for text, group in numbers.items():
        who = f"{noun}{'s' if len(group) > 1 else ''} {format_cpulist(group)}"
        texts[who].append(text)
    width = max(map(len, texts), default=0)
    return [
        paragraph(text, f"{'' if number else who:<{width}}  ", WIDTH - 2)
        for who, group_texts in texts.items()
        for number, text in enumerate(group_texts)
    ]


def showable(text: str, encoding: str | None) -> str:
    """`text` for a terminal of this encoding, with ASCII in place of characters that it lacks."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeEncodeError:
        plain = text.translate(_PLAIN).encode(encoding or "ascii", "backslashreplace")
        return plain.decode(encoding or "ascii")
    return text
