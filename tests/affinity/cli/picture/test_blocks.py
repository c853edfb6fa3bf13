from __future__ import annotations

from affinity.cli.picture.blocks import (
    Block,
    Rectangle,
    Words,
    beside,
    framed,
    stacked,
    words,
    wrapped,
)


def _square(side: float) -> Block:
    return Block(side, side, (Rectangle(0, 0, side, side, "#000000"),))


def _corners(block: Block) -> list[tuple[float, float]]:
    return [(shape.x, shape.y) for shape in block.shapes]


def test_blocks_stand_side_by_side_with_gaps() -> None:
    block = beside([_square(10), _square(20)], gap=3)
    assert (block.width, block.height) == (33, 20)
    assert _corners(block) == [(0, 0), (13, 0)]


def test_blocks_stand_above_each_other_with_gaps() -> None:
    block = stacked([_square(10), _square(20)], gap=3)
    assert (block.width, block.height) == (20, 33)
    assert _corners(block) == [(0, 0), (0, 13)]


def test_blocks_wrap_into_rows() -> None:
    block = wrapped([_square(10)] * 5, per_row=2, gap=0)
    assert (block.width, block.height) == (20, 30)
    assert _corners(block) == [(0, 0), (10, 0), (0, 10), (10, 10), (0, 20)]


def test_nothing_takes_no_room() -> None:
    assert (stacked([], 5).width, stacked([], 5).height) == (0, 0)
    assert (beside([], 5).width, beside([], 5).height) == (0, 0)


def test_frame_lies_behind_what_it_holds() -> None:
    block = framed(_square(10), padding=4, fill="#ffffff", stroke="#111111", told="tile")
    ground, inner = block.shapes
    assert isinstance(ground, Rectangle)
    assert (ground.width, ground.height, ground.told) == (18, 18, "tile")
    assert (inner.x, inner.y) == (4, 4)


def test_words_are_as_wide_as_their_letters() -> None:
    block = words("node 10", size=10)
    assert block.width == 42
    assert block.shapes == (Words(0, 10, "node 10", 10),)
