from __future__ import annotations

import pytest

from knltrain.distributed_ops.chunks import cut
from knltrain.errors import NetworkError


def test_chunks_of_outputs_see_all_inputs() -> None:
    found = cut("conv", 10, 6, 1, 3)
    assert [(each.outputs.start, each.outputs.stop) for each in found] == [(0, 3), (3, 6), (6, 10)]
    assert all((each.inputs, each.groups) == (slice(0, 6), 1) for each in found)


def test_chunks_of_groups_see_the_inputs_of_these() -> None:
    found = cut("conv", 12, 6, 3, 2)
    assert [(each.outputs, each.inputs, each.groups) for each in found] == [
        (slice(0, 4), slice(0, 2), 1),
        (slice(4, 12), slice(2, 6), 2),
    ]


@pytest.mark.parametrize(("groups", "chunks", "units"), [(1, 11, 10), (2, 3, 2), (1, 0, 10)])
def test_more_chunks_than_can_be_are_refused(groups: int, chunks: int, units: int) -> None:
    with pytest.raises(NetworkError, match=f"in {chunks} chunks: expected 1 to {units}"):
        cut("conv", 10, 6, groups, chunks)
