from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_messages_arrive_as_with_gloo(common: Any, differences: Any) -> None:
    assert differences(common, {"neighbours", "tags"}) == []


@pytest.mark.slow
def test_three_ranks_send_as_with_gloo(every_case: Any, differences: Any) -> None:
    assert differences(every_case, {"neighbours", "tags"}) == []
