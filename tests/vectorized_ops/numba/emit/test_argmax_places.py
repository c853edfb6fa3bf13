from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.argmax_places import NOWHERE, Places
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile


@tile
def marked_tile(typingctx: Any, out: Any, places: Any, number: Any, past: Any) -> Any:
    """Write places, less two where they are the number; then NOWHERE; then places and one more."""
    signature = types.void(out, places, types.int64, types.boolean)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        seen, number = names.load(lanes.pointer(1, args[1])), names.spread(args[2])
        marked = lanes.select(names.same(seen, number), names.less(number, 2), seen)
        names.store(marked, lanes.pointer(0, args[0]), args[3])
        names.store(names.constant(NOWHERE), lanes.pointer(0, args[0], LANES), args[3])
        names.store_near(names.more(seen, names.constant(1)), lanes.pointer(0, args[0], 2 * LANES))
        return context.get_dummy_value()

    return signature, generate


@kernel
def marked(out: Any, places: Any, number: int, past: bool) -> None:
    marked_tile(out, places, number, past)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("number", [2, 130, 254])
def test_places_are_bytes_from_0_to_255(number: int, past: bool) -> None:
    places = np.resize(np.array([0, 2, 130, 254], np.uint8), LANES)
    out = aligned_zeros((4 * LANES,), np.uint8)
    marked(out, places, number, past)
    assert_array_equal(out[:LANES], np.where(places == number, number - 2, places))
    assert (out[LANES : 2 * LANES] == NOWHERE).all()
    assert_array_equal(out[2 * LANES : 3 * LANES], places + 1)
    assert not out[3 * LANES :].any()
