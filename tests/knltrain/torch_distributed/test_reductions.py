from __future__ import annotations

from typing import Any

import pytest

KINDS = {"all_reduce", "reduce", "reduce_scatter", "coalesced", "functional", "unequal"}


def test_results_are_those_of_gloo(common: Any, differences: Any) -> None:
    assert differences(common, KINDS) == []


@pytest.mark.slow
def test_three_ranks_reduce_as_with_gloo(every_case: Any, differences: Any) -> None:
    assert differences(every_case, KINDS) == []


def test_all_ranks_get_the_same_bits(common: Any) -> None:
    assert _digests_that_differ(common) == []


def test_all_ranks_get_the_same_bits_where_numbers_are_none(common: Any) -> None:
    assert common[0]["greatest"] == common[1]["greatest"]


@pytest.mark.slow
def test_all_ranks_get_the_same_bits_of_every_dtype(every_case: Any) -> None:
    assert _digests_that_differ(every_case) == []


def _digests_that_differ(found: list[Any]) -> list[str]:
    names = [name for name in found[0]["cases"] if name.startswith("all_reduce")]
    assert len(names) > 20
    return [name for name in names if len({one["cases"][name][1] for one in found}) > 1]
