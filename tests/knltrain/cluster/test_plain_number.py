from __future__ import annotations

import pytest

from knltrain.cluster.plain_number import plain_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("999999999", 999_999_999)]
    + [(text, None) for text in (None, "", "²", "٣", "1_0", "-1", "+1", " 1", "9" * 10)],
)
def test_only_plain_digits_are_a_number(text: str | None, number: int | None) -> None:
    assert plain_number(text) == number
