"""Building blocks of pictures: rectangles and texts in pixels, put beside and above each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

LETTER_WIDTH = 0.6
"""Width of a letter as a part of the font size: a little more than the common fonts have."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle with its corner at `x`, `y`; `told` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    stroke_width: float = 1
    radius: float = 0
    told: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text whose baseline starts (`centred`: is centred) at `x`, `y`."""

    x: float
    y: float
    text: str
    size: float
    colour: str = "#1f2937"
    centred: bool = False
    bold: bool = False


Shape: TypeAlias = Rectangle | Words


@dataclass(frozen=True, slots=True)
class Block:
    """Shapes within a width and a height, seen from their common upper left corner."""

    width: float
    height: float
    shapes: tuple[Shape, ...]

    def moved(self, x: float, y: float) -> tuple[Shape, ...]:
        """The shapes, seen from a corner that is `x` to the left and `y` above."""
        return tuple(replace(shape, x=shape.x + x, y=shape.y + y) for shape in self.shapes)


def words(text: str, size: float, bold: bool = False, colour: str = "#1f2937") -> Block:
    """A line of text as a block."""
    line = Words(0, size, text, size, colour, bold=bold)
    return Block(len(text) * size * LETTER_WIDTH, size * 1.4, (line,))


def stacked(blocks: Sequence[Block], gap: float) -> Block:
    """Blocks below each other."""
    shapes: list[Shape] = []
    y = 0.0
    for block in blocks:
        shapes.extend(block.moved(0, y))
        y += block.height + gap
    return Block(max((b.width for b in blocks), default=0), max(y - gap, 0), tuple(shapes))


def beside(blocks: Sequence[Block], gap: float) -> Block:
    """Blocks next to each other, at the same height."""
    shapes: list[Shape] = []
    x = 0.0
    for block in blocks:
        shapes.extend(block.moved(x, 0))
        x += block.width + gap
    return Block(max(x - gap, 0), max((b.height for b in blocks), default=0), tuple(shapes))


def wrapped(blocks: Sequence[Block], per_row: int, gap: float) -> Block:
    """Blocks in rows of `per_row`."""
    rows = [blocks[first : first + per_row] for first in range(0, len(blocks), per_row)]
    return stacked([beside(row, gap) for row in rows], gap)


def framed(
    block: Block, padding: float, fill: str, stroke: str, radius: float = 4, told: str = ""
) -> Block:
    """A block on a rectangle that is wider by `padding` on each side."""
    width, height = block.width + 2 * padding, block.height + 2 * padding
    ground = Rectangle(0, 0, width, height, fill, stroke, 1, radius, told)
    return Block(width, height, (ground, *block.moved(padding, padding)))
