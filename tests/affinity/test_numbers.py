"""Numbers as text: whole ones, and sizes of memory."""

from __future__ import annotations

import pytest

from affinity.numbers import format_bytes, whole_number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (249_000_000, "237.5 MiB"),
        (16 << 30, "16.0 GiB"),
        (515_524 << 20, "503.4 GiB"),
        (3 << 39, "1.5 TiB"),
    ],
)
def test_sizes_have_the_unit_that_suits_them(number: int, text: str) -> None:
    assert format_bytes(number) == text


def test_what_rounds_to_a_whole_unit_is_written_in_it() -> None:
    assert format_bytes((1 << 30) - 1) == "1.0 GiB"
    assert format_bytes(1_023_900_000) == "976.5 MiB"


def test_more_digits_tell_sizes_apart_that_are_nearly_the_same() -> None:
    assert format_bytes(4 << 30, digits=2) == "4.00 GiB"
    assert format_bytes((4 << 30) - (50 << 20), digits=2) == "3.95 GiB"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("12", 12),
        (" 1", None),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        (None, None),
        ("", None),
        ("-1", None),
        ("1e3", None),
        ("1.5", None),
        ("²", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_numbers_of_up_to_18_digits_are_read(text: str | None, number: int | None) -> None:
    assert whole_number(text) == number
