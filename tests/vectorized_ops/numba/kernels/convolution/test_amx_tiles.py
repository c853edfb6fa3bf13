"""Panels, products and stores of convolution by AMX; what LLVM makes of the instructions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

import vectorized_ops
from vectorized_ops.bfloat16 import rounded
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.amx import TILE
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.amx_tiles import (
    AMX_OUTER_PRODUCT,
    FINISH,
    PAIRS,
    PRODUCTS,
    TURN_HALF,
)
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU


def whole(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


@kernel
def call_pairs(address: int, out: Any, step: int, inputs: Any, images: int, channels: int) -> None:
    call_tile(address, out, 2, step, inputs, 3, images, channels)


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("is_stored", [True, False])
def test_neighbouring_rows_become_pairs_with_a_zero_beside_the_last(
    channels: int, is_stored: bool
) -> None:
    images, step = 3 * LANES, 4 * LANES
    rows = whole(channels, images)
    source = np.concatenate([np.full(3, 7, np.float32), rows.reshape(-1)])
    out = np.full(2 + 3 * step + 1, 77, np.float32)
    address = PAIRS.address(bfloat16=("inputs",) * is_stored)
    call_pairs(address, out, step, rounded(source) if is_stored else source, images, channels)
    even = np.pad(rows, ((0, channels % 2), (0, 0)))
    expected = paired(even[::2], even[1::2]).reshape(-1, 3, LANES).swapaxes(0, 1)
    found = out[2:-1].reshape(3, step)[:, : len(even) // 2 * LANES]
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
    rest = out[2:-1].reshape(3, step)[:, len(even) // 2 * LANES :]
    assert (np.concatenate([out[:2], rest.reshape(-1), out[-1:]]) == 77).all()


@kernel
def call_products(
    address: int, out: Any, weights: Any, weights_tile: int, panel: Any, panel_vector: int,
    runs: Any, number: int, items: int,
) -> None:  # fmt: skip
    call_tile(
        address, out, 0, weights, 0, weights_tile, panel, 0, panel_vector, runs, 2, number, items
    )


@pytest.mark.parametrize("runs", [[(0, 5)], [(0, 1), (3, 2)], [(4, 1)]], ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 1), (1, 2), (1, 1)])
def test_products_are_those_of_all_runs_tiles_of_filters_and_vectors_of_images(
    rows: int, columns: int, runs: list[tuple[int, int]]
) -> None:
    steps, items = 5, 2
    weights, panels = whole(2, rows, TILE, steps * TILE), whole(2, items * columns, 80, LANES)
    tiles = paired(*weights).reshape(rows, TILE, steps, TILE).swapaxes(1, 2)
    out = np.full((items * columns, rows, TILE, LANES), np.nan, np.float32)
    call_products(
        PRODUCTS.address(rows, columns, 0), out.reshape(-1),
        np.ascontiguousarray(tiles).reshape(-1), steps * TILE**2, paired(*panels).reshape(-1),
        80 * LANES, np.array([(9, 9), *runs]).reshape(-1), len(runs), items,
    )  # fmt: skip
    used = [TILE * first + t for first, number in runs for t in range(TILE * number)]
    expected = np.einsum("eift,eqtn->qifn", weights[..., used], panels[:, :, : len(used)])
    assert_array_equal(out, expected)


@kernel
def call_finish(
    address: int, out: Any, images: int, products: Any, bias: Any, mask: Any, mode: int,
    filters: int, wanted: bool, sums: Any, pivots: Any, fresh: bool, bits: Any,
) -> None:  # fmt: skip
    call_tile(
        address, out, 0, images, products, 0, 6 * LANES, bias, 0, mask, 0, mode, filters, wanted,
        sums, 0, pivots, 0, fresh, bits,
    )  # fmt: skip


@pytest.mark.parametrize("mode", [0, RELU, ADD, MASK, ADD | MASK])
@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("columns", [1, 2])
def test_results_are_stored_with_bias_in_any_way(mode: int, is_stored: bool, columns: int) -> None:
    filters, images = 6, 2 * LANES
    products, bias = whole(2, filters, LANES), whole(filters)
    before, mask = whole(filters, images), whole(filters, images)[::-1].copy()
    out, masking = (rounded(it) if is_stored else it.copy() for it in (before, mask))
    sums, pivots = np.zeros((filters, 2, LANES), np.float32), np.zeros(filters, np.float32)
    bits = np.where(np.arange(images) < images - 3, np.int32(-1), np.int32(0))
    call_finish(
        FINISH.address(columns, bfloat16=("out", "mask") * is_stored), out.reshape(-1), images,
        products.reshape(-1), bias, masking.reshape(-1), mode, filters, True, sums.reshape(-1),
        pivots, True, bits,
    )  # fmt: skip
    plain = products.swapaxes(0, 1).reshape(filters, images) + bias[:, None]
    expected = plain + before * (mode & ADD > 0)
    if mode & RELU:
        expected = np.maximum(expected, 0)
    if mode & MASK:
        expected = np.where(mask > 0, expected, 0)
    assert_array_equal(out, rounded(expected) if is_stored else expected)
    assert_array_equal(pivots, plain[:, 0])
    centred = (plain - plain[:, :1])[:, : images - 3]
    assert_array_equal(sums[:, 0].sum(axis=1), centred.sum(axis=1))
    assert_array_equal(sums[:, 1].sum(axis=1), np.square(centred).sum(axis=1))


@kernel
def call_outer_product(
    address: int, out: Any, left: Any, left_pixel: int, left_line: int, right: Any,
    right_pixel: int, right_line: int, pixels: int, lines: int,
) -> None:  # fmt: skip
    call_tile(
        address, out, 0, left, 0, left_pixel, left_line, right, 0, right_pixel, right_line, pixels,
        lines,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "columns", "images"), [(32, 2, 16), (20, 2, 8), (3, 1, 24), (16, 1, 32)]
)
def test_outer_products_are_added_over_lines_pixels_and_pairs_of_images(
    rows: int, columns: int, images: int
) -> None:
    lines, pixels = 2, 3
    left = whole(2, lines, pixels, rows, images)
    right = whole(2, lines, pixels, images, columns * LANES)
    before = whole(rows, columns * LANES)
    out = before.copy()
    call_outer_product(
        AMX_OUTER_PRODUCT.address(rows, columns, images, 0), out.reshape(-1),
        paired(*left).reshape(-1), rows * images, pixels * rows * images,
        paired(*right).reshape(-1), images * columns * LANES, pixels * images * columns * LANES,
        pixels, lines,
    )  # fmt: skip
    assert_array_equal(out, before + np.einsum("eyxin,eyxnk->ik", left, right))


@kernel
def call_turn(address: int, out: Any, wide: int, sums: Any, inputs: Any, row: int) -> None:
    call_tile(address, out, 1, wide, sums, 1, inputs, 1, row)


def test_half_a_vector_of_pairs_is_transposed_and_summed() -> None:
    half, row, wide = LANES // 2, 3 * LANES // 2, LANES + 4
    elements = whole(2, LANES, row)
    out, sums = np.full(1 + half * wide, 77, np.float32), np.full(LANES + 2, 5, np.float32)
    inputs = np.concatenate([np.zeros(1, np.float32), paired(*elements).reshape(-1)])
    call_turn(TURN_HALF.address(), out, wide, sums, inputs, row)
    used = elements[:, :, :half]
    found = out[1:].reshape(half, wide)
    assert found[:, :LANES].tobytes() == np.ascontiguousarray(paired(*used).T).tobytes()
    assert (found[:, LANES:] == 77).all()
    assert out[0] == 77
    assert_array_equal(sums, [5, *(5 + used.sum(axis=(0, 2))), 5])


COMPILE = """
from vectorized_ops.numba.kernels.convolution.amx_tiles import AMX_OUTER_PRODUCT, PRODUCTS
for function, constants in (
    (PRODUCTS, [(2, 2, 1), (2, 1, 1), (1, 2, 1), (1, 1, 1)]),
    (AMX_OUTER_PRODUCT, [(32, 2, 16, 1), (20, 2, 8, 1), (3, 1, 48, 1)]),
):
    for each in constants:
        function.address(*each)
    for library in function._libraries:
        print(library.get_asm_str(), "\\nEND")
"""


@pytest.mark.parametrize(
    ("processor", "features"),
    [
        ("sapphirerapids", ""),
        ("znver4", "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512bf16,+amx-tile,+amx-bf16"),
    ],
)
def test_sums_stay_in_tiles_that_are_configured(
    processor: str, features: str, tmp_path: Path
) -> None:
    settings = {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),  # what comes from a cache cannot be looked into
        "PYTHONPATH": str(Path(vectorized_ops.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", COMPILE],
        env={**os.environ, **settings}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *functions, rest = done.stdout.split("END\n")
    assert (len(functions), rest) == (7, "")
    for text, sums in zip(functions, (4, 2, 2, 1, 4, 4, 1), strict=True):
        check_tiles(text, sums)


def check_tiles(assembly: str, sums: int) -> None:
    """One configuration, no tile in memory but for operands, and sums stored once."""
    names = re.findall(r"^\t(ldtilecfg|tilerelease|tilestored|tdpbf16ps)\b", assembly, re.MULTILINE)
    assert names.count("ldtilecfg") == names.count("tilerelease") == 1
    assert names.count("tilestored") == sums
    assert names.count("tdpbf16ps") % sums == 0
    assert names.count("tdpbf16ps") > 0
    used = set(re.findall(r"%tmm\d", assembly))
    rows = re.findall(r"^\tmovb\t\$\d+, -?\d*\(%rsp\)", assembly, re.MULTILINE)
    assert len(rows) - 1 == len(used)  # the first byte says what kind of configuration it is
    assert used == {f"%tmm{number}" for number in range(len(used))}
    targets = set(re.findall(r"tdpbf16ps\t%tmm\d, %tmm\d, (%tmm\d)", assembly))
    assert len(targets) == sums
    assert all(stored in targets for stored in re.findall(r"tilestored\t(%tmm\d)", assembly))
    assert not re.search(r"tileload\w*\t.*\((%rsp|%rbp)", assembly)
    assert not re.search(r"tilestored\t%tmm\d, -?\d*\((%rsp|%rbp)", assembly)


@pytest.mark.parametrize(
    "spoilt",
    [
        "\ttilestored\t%tmm0, 64(%rsp,%rax)",
        "\tldtilecfg\t(%rsp)",
        "\ttileloadd\t(%rsp), %tmm0",
        "\ttilezero\t%tmm5",
    ],
)
def test_what_spills_or_is_not_configured_is_noticed(spoilt: str) -> None:
    good = (
        "\tmovb\t$1, (%rsp)\n\tmovb\t$16, 48(%rsp)\n\tmovb\t$16, 49(%rsp)\n"
        "\tmovb\t$16, 50(%rsp)\n\tldtilecfg\t(%rsp)\n\ttdpbf16ps\t%tmm2, %tmm1, %tmm0\n"
        "\ttilestored\t%tmm0, (%rsi,%rax)\n\ttilerelease\n"
    )
    check_tiles(good, 1)
    with pytest.raises(AssertionError):
        check_tiles(f"{good}{spoilt}\n", 1)
