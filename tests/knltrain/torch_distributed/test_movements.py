from __future__ import annotations

from typing import Any

import pytest

KINDS = {"broadcast", "all_gather", "gather_and_scatter", "all_to_all", "objects"}


def test_everything_that_is_moved_arrives_as_with_gloo(common: Any, differences: Any) -> None:
    assert differences(common, KINDS) == []


@pytest.mark.slow
def test_three_ranks_move_as_with_gloo(every_case: Any, differences: Any) -> None:
    assert differences(every_case, KINDS) == []
