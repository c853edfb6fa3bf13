from __future__ import annotations

import pytest

from affinity.whole_number import whole_number


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
