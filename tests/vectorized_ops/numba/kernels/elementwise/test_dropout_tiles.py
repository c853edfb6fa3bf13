from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.elementwise.dropout_tiles import hashed, kept_tile
from vectorized_ops.reference import dropout

from .surroundings import check, surrounded


@kernel
def kept(out: Any, values: Any, number: int, numbers: int, key: int, bound: int) -> None:
    kept_tile(
        out, LANES, out, LANES, values, 1, 3, 3, number, 1, numbers, key, bound, np.float32(2.0),
        False, False, False,
    )  # fmt: skip


@tile
def hashed_tile(typingctx: Any, out: Any, numbers: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        kind = lanes.lane_numbers().type.as_pointer()
        numbers = builder.load(builder.bitcast(lanes.pointer(1, args[1]), kind), align=4)
        results = builder.bitcast(lanes.pointer(0, args[0]), kind)
        builder.store(hashed(lanes, builder, numbers), results, align=4)
        return context.get_dummy_value()

    return types.void(out, numbers), generate


@kernel
def hashes(out: Any, numbers: Any) -> None:
    hashed_tile(out, numbers)


def test_hash_is_that_of_the_reference() -> None:
    numbers = np.random.default_rng(0).integers(0, 2**32, LANES, np.uint32)
    numbers[:2] = 0, 2**32 - 1
    out = np.zeros(LANES, np.uint32)
    hashes(out.view(np.float32), numbers.view(np.float32))
    assert_array_equal(out, dropout.hashed(numbers))


@pytest.mark.parametrize("bound", [0, 2**30, 2**31 + 5, 2**32 - 1])
def test_rows_are_numbered_one_after_the_other_and_their_images_by_the_distance(bound: int) -> None:
    number, numbers, key = 2**32 - 5, 1_000_003, 2**31 + 12345
    values, out = np.arange(9 * LANES + 1, dtype=np.float32), surrounded(9)
    kept(out, values, number, numbers, key, bound)
    row, image = np.arange(3)[:, None], np.arange(3 * LANES)
    names = ((number + row + image * numbers) % 2**32).astype(np.uint32)
    keep = dropout.hashed(names ^ np.uint32(key)) >= bound
    check(out, np.where(keep.reshape(-1), 2 * values[1:], 0))
