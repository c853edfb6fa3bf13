from __future__ import annotations

import pytest

from affinity.sizes import size_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1 << 16, "64 KiB"),
        (16 << 30, "16 GiB"),
        (3 << 39, "1.5 TiB"),
        (515_524 << 20, "503.4 GiB"),
    ],
)
def test_sizes_have_the_unit_that_suits_them(number: int, text: str) -> None:
    assert size_text(number) == text
