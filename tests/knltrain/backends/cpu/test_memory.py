"""What lives at the same time never lies in the same place, and the arena is hardly larger."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from knltrain.backends.cpu.memory import (
    ALIGNMENT_BYTES,
    Buffer,
    Flow,
    Lifetime,
    Place,
    Tensor,
    largest_sum,
    packed,
)

MOMENTS = 20


@st.composite
def lifetimes(draw: st.DrawFn) -> Lifetime:
    first, last = sorted(draw(st.tuples(*[st.integers(-1, MOMENTS)] * 2)))
    return Lifetime(draw(st.integers(0, 300)), first, last)


@given(st.lists(lifetimes(), max_size=15))
def test_pieces_that_live_at_the_same_time_share_no_byte(given: list[Lifetime]) -> None:
    offsets, size = packed(given)
    pieces = list(zip(offsets, given, strict=True))
    for (one, left), (other, right) in combinations(pieces, 2):
        if left.first <= right.last and right.first <= left.last:
            assert one + left.size <= other or other + right.size <= one
    assert all(offset % ALIGNMENT_BYTES == 0 for offset in offsets)
    assert size == max((offset + each.size for offset, each in pieces), default=0)
    assert size >= largest_sum(given)


@given(st.lists(lifetimes(), max_size=15))
def test_largest_sum_is_that_of_the_busiest_moment(given: list[Lifetime]) -> None:
    moments = range(-1, MOMENTS + 1)
    sums = [sum(each.size for each in given if each.first <= m <= each.last) for m in moments]
    assert largest_sum(given) == max(sums)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_values_that_wait_for_their_backward_pass_are_packed_without_a_gap(
    sizes: list[int],
) -> None:
    """As in a plain network: what is made first is needed last."""
    end, unit = 2 * len(sizes), ALIGNMENT_BYTES
    values = [Lifetime(unit * size, m, end - m) for m, size in enumerate(sizes)]
    assert packed(values)[1] == largest_sum(values) == unit * sum(sizes)


def test_pieces_one_after_the_other_take_the_place_of_the_largest() -> None:
    given = [Lifetime(64 * size, m, m) for m, size in enumerate((1, 5, 2))]
    assert packed(given) == ([0, 0, 0], 320)


def test_buffer_lives_from_its_first_to_its_last_use() -> None:
    buffer = Buffer("it", (2, 3))
    for moment in (4, 2, 7, 3):
        buffer.use_at(moment)
    assert (buffer.first, buffer.last) == (2, 7)


def _with_array(name: str, channels: int) -> Buffer:
    buffer = Buffer(name, (2, 3, 3, channels))
    buffer.array = np.arange(2 * 9 * channels, dtype=np.float32).reshape(buffer.shape)
    return buffer


def test_place_is_the_whole_buffer_or_some_channels_of_it() -> None:
    buffer = _with_array("it", 8)
    whole = Place(buffer)
    part = whole.part(2, 6)
    inner = part.part(1, 3)
    for place, first, last in ((whole, 0, 8), (part, 2, 6), (inner, 3, 5)):
        place.bind()
        assert_array_equal(place.array, buffer.array[..., first:last])
        assert np.shares_memory(place.array, buffer.array)
        assert (place.shape, place.buffer) == (place.array.shape, buffer)


def test_parts_follow_a_place_that_moves() -> None:
    source, target = Place(_with_array("source", 4)), _with_array("target", 8)
    part = source.part(1, 3)
    source.move_into(Place(target).part(3, 7))
    later = source.part(0, 2)
    for place, first, last in ((source, 3, 7), (part, 4, 6), (later, 3, 5)):
        place.bind()
        assert place.buffer is target
        assert_array_equal(place.array, target.array[..., first:last])


def test_place_follows_what_it_moved_into() -> None:
    first, second, target = (Place(_with_array(name, 4)) for name in ("1", "2", "3"))
    first.move_into(second)
    second.move_into(target)
    first.bind()
    assert first.buffer is target.buffer
    assert first.shape == (2, 3, 3, 4)


def test_bytes_have_a_place_too() -> None:
    buffer = Buffer("places", (2, 3, 3, 4), np.uint8)
    assert Place(buffer).array.dtype == np.uint8


def _tensor(with_gradient: bool = True) -> Tensor:
    values, gradient = (Buffer(name, (2, 3)) for name in ("values", "gradient"))
    values.array, gradient.array = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    made = Tensor("it", (3,), Place(values), Place(gradient) if with_gradient else None)
    made.values.bind()
    if made.gradient is not None:
        made.gradient.bind()
    return made


def test_tensor_is_neither_rectified_nor_fixed_nor_masked_at_first() -> None:
    tensor = _tensor()
    assert not (tensor.rectified or tensor.fixed or tensor.masked)
    tensor.mark_masked()
    assert tensor.masked


def test_part_of_a_concatenation_is_masked_with_the_whole() -> None:
    part, middle, whole = _tensor(), _tensor(), _tensor()
    part.parent, middle.parent = middle, whole
    assert not part.masked
    whole.mark_masked()
    assert part.masked
    part.mark_masked(False)  # whose last share no mask was applied to
    assert not part.masked


def test_flow_writes_into_the_gradient_of_its_tensor() -> None:
    tensor = _tensor()
    flow = Flow(tensor)
    assert flow.is_needed
    assert flow.can_mask
    assert tensor.gradient is not None
    assert flow.out is tensor.gradient.array
    assert flow.manner == {"add": False, "mask": None}
    flow.add = flow.mask = True
    assert flow.manner == {"add": True, "mask": tensor.values.array}


@pytest.mark.parametrize("with_gradient", [True, False])
def test_flow_is_needed_where_there_is_a_gradient(with_gradient: bool) -> None:
    assert Flow(_tensor(with_gradient), can_mask=False).is_needed is with_gradient
