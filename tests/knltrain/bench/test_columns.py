from __future__ import annotations

import pytest

from knltrain.bench.columns import columns


def test_numbers_end_below_each_other_and_names_begin_so() -> None:
    rows = [("ours", "1.00", "a"), ("another", "12.50", "")]
    assert columns(("", "times", "version"), rows, left=(0, 2)) == [
        "         times  version",
        "ours      1.00  a",
        "another  12.50",
    ]


def test_a_row_of_other_length_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        columns(("a", "b"), [("c",)])
