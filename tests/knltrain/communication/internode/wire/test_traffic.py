from __future__ import annotations

import pytest

from knltrain.communication.internode.wire.formats import Bfloat16, Int8
from knltrain.communication.internode.wire.traffic import (
    goes_at_once,
    piece_floats,
    pieces,
    sent_bytes,
    visit_bytes,
)
from knltrain.communication.internode.wire.wire_format import CenterFormats
from vectorized_ops.reference import wire


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 70_001])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7])
def test_pieces_are_the_vector_one_behind_the_other(size: int, nodes: int) -> None:
    cuts = list(pieces(size, nodes))
    assert len(cuts) == nodes
    assert [cut.start for cut in cuts[1:]] == [cut.stop for cut in cuts[:-1]]
    assert (cuts[0].start, cuts[-1].stop) == (0, size)
    assert max(cut.stop - cut.start for cut in cuts) == piece_floats(size, nodes)
    assert all(cut.start % 256 == 0 or cut.start == size for cut in cuts)


def test_two_nodes_send_all_at_once_and_more_send_pieces() -> None:
    assert [goes_at_once(nodes) for nodes in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(("nodes", "share"), [(1, 0), (2, 1), (3, 4 / 3), (4, 1.5)])
def test_bytes_are_those_that_an_all_reduce_needs(nodes: int, share: float) -> None:
    size = 1_200_000
    assert sent_bytes(None, size, nodes) == pytest.approx(4 * share * size)
    assert sent_bytes(Bfloat16(wire), size, nodes) == pytest.approx(2 * share * size, rel=2e-3)


@pytest.mark.parametrize(("nodes", "share"), [(1, 0), (2, 1 / 2), (4, 3 / 4)])
def test_bytes_of_a_visit_are_those_of_shards_elsewhere(nodes: int, share: float) -> None:
    size = 1_200_000
    assert visit_bytes(None, size, nodes) == (8 * share * size, 4 * share * size)
    formats = CenterFormats(added=Int8(wire), read=Bfloat16(wire))
    expected = pytest.approx((3 * share * size, 2 * share * size), rel=1e-2)
    assert visit_bytes(formats, size, nodes) == expected
