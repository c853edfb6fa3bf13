from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.elementwise.softmax_tiles import exponential, softmax_tile

ROW, CLASSES = 2 * LANES, 5


@tile
def exponential_tile(typingctx: Any, out: Any, values: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        result = exponential(lanes, lanes.load(lanes.pointer(1, args[1], args[2])))
        lanes.store(result, lanes.pointer(0, args[0], args[2]))
        return context.get_dummy_value()

    return types.void(out, values, types.int64), generate


@kernel
def exponentials(out: Any, values: Any) -> None:
    for index in range(0, len(values), LANES):
        exponential_tile(out, values, index)


@kernel
def softmax(gradient: Any, logits: Any, count: int, state: Any) -> None:
    softmax_tile(
        gradient, logits, LANES, ROW, CLASSES, np.float32(0.25), np.float32(3.0), count, state
    )


def test_exponential_is_good_to_the_last_places() -> None:
    values = np.concatenate([np.linspace(-86.9, 0, 4000), np.linspace(-1, 0, 96)])
    out = np.empty(len(values), np.float32)
    exponentials(out, values.astype(np.float32))
    assert_allclose(out, np.exp(values.astype(np.float32).astype(np.float64)), rtol=1.5e-7)


def test_exponential_of_what_is_far_below_zero_or_no_number() -> None:
    values = np.resize(np.array([-88, -1e30, -np.inf, np.nan, -0.0], np.float32), LANES)
    out = np.empty(LANES, np.float32)
    exponentials(out, values)
    assert_array_equal(out, np.resize([0, 0, 0, np.nan, 1], LANES))


def test_softmax_of_one_vector_of_images_leaves_the_others_alone() -> None:
    logits = np.random.default_rng(0).normal(0, 5, (CLASSES, ROW)).astype(np.float32)
    logits[0, -1] = np.nan
    gradient, state = np.full((CLASSES, ROW), 77, np.float32), np.empty((3, LANES), np.float32)
    softmax(gradient.reshape(-1), logits.reshape(-1), LANES - 2, state)
    seen = logits[:, LANES:-2].astype(np.float64)
    shifted = seen - seen.max(axis=0)
    powers = np.exp(shifted)
    assert_allclose(
        gradient[:, LANES:-2], 3 * (powers / powers.sum(axis=0) - 0.25), rtol=0, atol=1e-6
    )
    assert not gradient[:, -2:].any()
    assert (gradient[:, :LANES] == 77).all()
    expected = [seen.max(axis=0), powers.sum(axis=0), shifted.sum(axis=0)]
    assert_allclose(state[:, :-2], expected, rtol=1e-5)
