from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import Lanes, tile
from vectorized_ops.numba.kernels.pooling.block_row import BlockRow
from vectorized_ops.numba.kernels.pooling.blocks import SIDE, seen_by_block

KERNEL = 3
SIZE = seen_by_block(KERNEL)


@tile
def copied_tile(typingctx: Any, out: Any, table: Any, row: Any, values: Any) -> Any:
    """Write flags, members, what is known, and the values at twice the numbers of what is seen."""
    signature = types.void(out, table, types.int64, values)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        row = BlockRow(lanes, lanes.pointer(1, args[1], args[2]), KERNEL)
        found = [builder.zext(flag, lanes.integer(0).type) for flag in row.exists()]
        found += row.members() + row.about()
        addresses = row.addresses(lanes.pointer(3, args[3]), lanes.integer(2))
        found += [lanes.load_integer(pointer) for pointer in addresses]
        for i, value in enumerate(found):
            builder.store(value, lanes.pointer(0, args[0], lanes.integer(i)))
        return context.get_dummy_value()

    return signature, generate


@kernel
def copied(out: Any, table: Any, row: int, values: Any) -> None:
    copied_tile(out, table, row, values)


def test_a_row_is_read_from_where_it_begins() -> None:
    row = [5, 1, 0, *[3, 0, 4, 2], *[7, 8, 9, 6]]
    out, values = np.zeros(2 * SIDE + 2 * SIZE, np.int64), np.arange(100, 120)
    copied(out, np.array([77, 77, *row, 77]), 2, values)
    assert out.tolist() == [1, 0, 5, 5, 7, 8, 9, 6, 106, 100, 108, 104]
    row[2] = 1
    copied(out, np.array([77, 77, *row, 77]), 2, values)
    assert out.tolist()[:4] == [1, 1, 5, 6]
