from __future__ import annotations

import pytest

from knltrain.distributed_ops import costs


@pytest.mark.parametrize(("ranks", "bytes_"), [(1, 0), (2, 1000), (4, 1500), (1000, 1998)])
def test_ring_sends_less_than_twice_the_bytes(ranks: int, bytes_: float) -> None:
    assert costs.ring_bytes(1000, ranks) == bytes_
    assert costs.ring_steps(ranks) == 2 * (ranks - 1)


def test_tree_and_master_send_more() -> None:
    assert costs.tree_bytes(1000) == 2000
    assert costs.master_bytes(1000, 8) == 8000
