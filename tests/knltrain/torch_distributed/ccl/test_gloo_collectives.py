"""The operations by gloo alone, which threads beside the first have; the cases try the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.mark.slow
def test_threads_may_each_have_a_group(start: Any) -> None:
    for found in start("threads", 2).results():
        assert found["sums"] == {name: [3.0] * 30 for name in ("main", "first", "second")}


@pytest.mark.slow
def test_operations_of_a_second_thread_give_what_those_of_the_first_do(common: Any) -> None:
    for found in (one["beside"] for one in common):
        assert found["cases"] > 20
        assert found["differences"] == []
        assert torch.equal(found["mean"], torch.full((2,), 1.5))
