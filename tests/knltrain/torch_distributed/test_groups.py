"""Several groups of a program, on each of our backends."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.mark.slow
def test_groups_of_some_ranks_work_at_the_same_time(start: Any) -> None:
    found = start("subgroups", 3).results()
    assert [all(one["many"]) for one in found] == [True] * 3
    assert torch.equal(found[0]["after"], found[2]["after"])


def test_groups_made_again_with_the_same_store_leave_nothing(common: Any) -> None:
    for found in (one["again"] for one in common):
        assert found["sums"] == [[2.0] * 3, [4.0] * 3, [6.0] * 3]
        assert found["held"] == [0, 0, 0]
        assert found["threads"] == ["MainThread"]
