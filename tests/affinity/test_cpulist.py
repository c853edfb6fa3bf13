from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinity.cpulist import TOO_HIGH, format_cpulist, members_of, parse_cpulist
from affinity.errors import AffinityError


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("5", (5,)),
        ("", ()),
        (" \n", ()),
        ("8, 0-1\n", (0, 1, 8)),
        ("0-2,1-3,2", (0, 1, 2, 3)),
        ("7-7", (7,)),
    ],
)
def test_kernel_notation_is_read(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpulist(text) == cpus


@pytest.mark.parametrize("part", ["x", "1-", "-1", "3-1", "1-2-3", "1.5", "²", "0x1", "+1"])
def test_bad_part_is_named_with_the_whole_list(part: str) -> None:
    with pytest.raises(AffinityError) as caught:
        parse_cpulist(f"0,{part},9")
    assert repr(part) in str(caught.value)
    assert f"0,{part},9" in str(caught.value)
    assert "as in 0-3,8" in str(caught.value)


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((4,), "4"), ((3, 1, 2, 2), "1-3"), ((0, 2, 3, 9), "0,2-3,9")],
)
def test_sets_are_written_as_shortest_ranges(cpus: tuple[int, ...], text: str) -> None:
    assert format_cpulist(cpus) == text


@given(st.sets(st.integers(0, 300)))
def test_written_sets_read_back(cpus: set[int]) -> None:
    assert parse_cpulist(format_cpulist(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["0-999999999999", "1048576"])
def test_number_that_no_cpu_has_is_refused_before_memory_is_filled(text: str) -> None:
    with pytest.raises(AffinityError, match="no cpu has a number of 1048576 or more"):
        parse_cpulist(text)


def test_members_of_a_mask_are_its_bits_as_far_as_there_may_be_cpus() -> None:
    assert members_of(0) == ()
    assert members_of(1 << 70 | 0b101) == (0, 2, 70)
    assert members_of(1 << TOO_HIGH - 1) == (TOO_HIGH - 1,)
    with pytest.raises(AffinityError, match="no cpu is 1048576 or more"):
        members_of(1 << TOO_HIGH)
