from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.dense import loops as kernels
from vectorized_ops.numba.kernels.dense.loops import Blocks, backward_blocks, forward_blocks
from vectorized_ops.numba.kernels.dense.tiles import ROWS, WIDTH

CUTS: dict[str, Callable[[int, int], Blocks]] = {
    "forward": forward_blocks,
    "backward": backward_blocks,
}


def whole_numbers(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    return out


@pytest.mark.parametrize("direction", CUTS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(
    ("inputs", "outputs", "number"),
    [
        (1, 1, LANES),
        (ROWS - 1, 5, WIDTH),
        (270, ROWS + 3, WIDTH + LANES),
        (40 * ROWS + 1, 200, WIDTH),
    ],
)
def test_products_of_any_shape_start_from_zero_the_bias_or_what_is_there(
    direction: str,
    threads: int,
    copied: bool,
    inputs: int,
    outputs: int,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if copied:
        monkeypatch.setattr(kernels, "STAY_CACHED", 0)
    blocks = CUTS[direction](inputs, outputs)
    assert blocks.copied is copied
    weights = whole_numbers(outputs, inputs)
    matrix = weights if direction == "forward" else weights.T
    values, bias = whole_numbers(blocks.steps, number), whole_numbers(blocks.rows)
    before, mask = whole_numbers(blocks.rows, number), whole_numbers(number, blocks.rows).T
    scratch = (
        aligned_zeros((threads, blocks.packed_size)),
        aligned_zeros((threads, ROWS * number)),
    )
    nothing, mask = aligned_zeros((0,)), np.ascontiguousarray(mask)
    product = matrix @ values
    expected = {
        (False, False): product + bias[:, None],
        (True, False): product + before,
        (False, True): np.where(mask > 0, product + bias[:, None], 0),
        (True, True): np.where(mask > 0, product + before, 0),
    }
    for (add, cut), result in expected.items():
        out = before.copy()
        kernels.multiply(
            out.reshape(-1), number, weights, values.reshape(-1), nothing if add else bias,
            mask.reshape(-1), add, cut, blocks, blocks.ahead(), *scratch,
        )  # fmt: skip
        assert_array_equal(out, result)


@pytest.mark.parametrize("direction", CUTS)
def test_next_block_is_fetched_line_by_line_and_nothing_twice(direction: str) -> None:
    inputs = 5 * 1024
    blocks = CUTS[direction](inputs, inputs)
    begins = np.arange(0, blocks.block_rows, ROWS) * blocks.row
    fetched = (begins[:, None] + blocks.ahead()).reshape(-1)
    rows, columns = np.divmod(fetched, inputs)
    height, width = blocks.block_rows, blocks.block_steps
    if direction == "backward":
        height, width = width, height
        assert set(rows.tolist()) == set(range(height))
        assert set(columns.tolist()) == set(range(0, width, ROWS))
        assert len(set(fetched.tolist())) == len(fetched)
    else:
        assert set(rows.tolist()) >= set(range(height))
        assert set(columns.tolist()) == set(range(0, width, kernels.LINE))


def test_weights_are_copied_if_there_are_many_or_their_rows_meet_in_the_cache() -> None:
    for inputs, outputs, forward, backward in [
        (800, 500, False, False), (1024, 500, True, False), (25088, 4096, True, True),
    ]:  # fmt: skip
        assert forward_blocks(inputs, outputs).copied is forward
        assert backward_blocks(inputs, outputs).copied is backward


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize(
    ("inputs", "outputs", "number"),
    [(1, 1, LANES), (WIDTH + 3, 2 * ROWS + 1, WIDTH), (4 * WIDTH, ROWS, LANES)],
)
def test_gradient_of_weights_and_bias_of_any_shape(
    threads: int, chunk: int, inputs: int, outputs: int, number: int
) -> None:
    values, gradient = whole_numbers(inputs, number), whole_numbers(outputs, number)
    for past_caches in [False] + [True] * (inputs % LANES == 0):
        weights_out = aligned_zeros((outputs, inputs))
        weights_out[...] = np.nan
        bias_out = np.full(outputs, np.nan, np.float32)
        kernels.weights_gradient(
            values.reshape(-1), gradient.reshape(-1), number, weights_out, bias_out, chunk,
            past_caches, aligned_zeros((-(-inputs // WIDTH), number, WIDTH)),
            aligned_zeros((threads, ROWS * number)), aligned_zeros((threads, ROWS * WIDTH)),
            gradient.reshape(-1),
        )  # fmt: skip
        assert_array_equal(weights_out, gradient @ values.T)
        assert_array_equal(bias_out, gradient.sum(axis=1))


def test_chunks_fill_the_second_cache_but_leave_work_for_all_threads() -> None:
    assert kernels.chunk_size(784, 4096, 2) * WIDTH == 1024
    assert kernels.chunk_size(1, 1, 64) == 1
    for columns, outputs, threads in [(25, 500, 64), (16, 10, 2), (64, 1000, 16)]:
        chunk = kernels.chunk_size(columns, outputs, threads)
        pieces = -(-columns // chunk) * -(-outputs // ROWS)
        assert chunk == 1 or pieces >= 4 * threads
