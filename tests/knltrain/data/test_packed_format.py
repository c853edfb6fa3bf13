from __future__ import annotations

from xxhash import xxh3_64_intdigest

from knltrain.data.packed_format import BLOCK, BlockSums, aligned


def test_blocks_are_summed_whatever_the_pieces() -> None:
    data = bytes(range(256)) * (BLOCK // 256) + b"rest"
    whole, pieces = BlockSums(), BlockSums()
    whole.add(data)
    for begin in range(0, len(data), 1_000_003):
        pieces.add(data[begin : begin + 1_000_003])
    assert (
        whole.all()
        == pieces.all()
        == [
            xxh3_64_intdigest(data[:BLOCK]),
            xxh3_64_intdigest(b"rest"),
        ]
    )


def test_pages_begin_at_multiples() -> None:
    assert [aligned(place) for place in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]
