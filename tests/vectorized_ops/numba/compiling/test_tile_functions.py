"""Tiles as functions of their own, called by address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import types

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.journal import JOURNAL
from vectorized_ops.numba.compiling.recording import recording
from vectorized_ops.numba.compiling.tile_functions import TileFunction, call_tile
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

ROOT = Path(__file__).parents[4]
ELSEWHERE = """
from vectorized_ops.numba.kernels.convolution.row_tiles import TRANSPOSE_ROWS
from vectorized_ops.numba.compiling.journal import JOURNAL
assert TRANSPOSE_ROWS.address(3) == TRANSPOSE_ROWS.address(3) != TRANSPOSE_ROWS.address(4)
print([(one.name, one.signature, one.compiled) for one in JOURNAL.made])
"""


@tile
def multiples_tile(
    typingctx: Any,
    factor: Any,
    out: Any,
    begin: Any,
    places: Any,
    values: Any,
    negative: Any,
) -> Any:
    """out[begin + places[0] + lane] = values[lane] * factor, and with `negative` minus that."""
    number = factor.literal_value
    signature = types.void(factor, out, types.int64, places, values, types.boolean)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        place = lanes.load_integer(lanes.pointer(3, args[3]))
        target = lanes.pointer(1, args[1], args[2], place)

        def times(size: float) -> Value:
            loaded = lanes.load(lanes.pointer(4, args[4]))
            return lanes.multiply(loaded, lanes.constant(size))

        lanes.store(times(number), target)
        with builder.if_then(args[5]):
            lanes.store(times(-number), target)
        return context.get_dummy_value()

    return signature, generate


MULTIPLES = TileFunction(multiples_tile, ("factor",), places=types.int64)


@kernel
def multiply(address: int, out: Any, begin: int, places: Any, values: Any, limit: int) -> None:
    call_tile(address, out, begin, places, values, begin > limit)


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("limit", [0, 99])
def test_a_kernel_calls_the_function_that_it_is_given(factor: int, limit: int) -> None:
    out, values = np.zeros(3 * LANES, np.float32), np.arange(LANES, dtype=np.float32)
    multiply(MULTIPLES.address(factor), out, 3, np.array([LANES]), values, limit)
    expected = np.zeros_like(out)
    expected[LANES + 3 : 2 * LANES + 3] = values * (factor if limit else -factor)
    np.testing.assert_array_equal(out, expected)
    assert len(multiply.signatures) == 1


@pytest.mark.parametrize("stored", [(), ("values",), ("values", "out")])
def test_arrays_that_are_named_are_of_bfloat16(stored: tuple[str, ...]) -> None:
    values, out = np.arange(LANES, dtype=np.float32), np.zeros(LANES, np.float32)
    given = rounded(values) if "values" in stored else values
    written = rounded(out) if "out" in stored else out
    address = MULTIPLES.address(2, bfloat16=stored)
    assert (address == MULTIPLES.address(2)) is not bool(stored)
    multiply(address, written, 0, np.array([0]), given, 99)
    np.testing.assert_array_equal(widened(written), 2 * values)


def test_a_function_is_made_once_and_its_constants_are_told() -> None:
    first = MULTIPLES.address(7)
    made = [one for one in JOURNAL.made if one.name == "multiples_tile"]
    assert made[-1].signature == "(7,)"
    assert MULTIPLES.address(7) == first != MULTIPLES.address(8)
    assert [one for one in JOURNAL.made if one.name == "multiples_tile"][: len(made)] == made


@pytest.mark.slow
def test_another_process_loads_what_one_has_made(tmp_path: Path) -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    for text, compiled in zip(said, (True, False), strict=True):
        names = [("transpose_rows_tile", f"({number},)", compiled) for number in (3, 4)]
        assert text == f"{names}\n"


def test_one_that_cannot_be_made_leaves_nothing_locked() -> None:
    @tile
    def impossible_tile(_typingctx: Any, out: Any) -> Any:
        def generate(*_: Any) -> Any:
            raise NotImplementedError("it cannot be made")

        return types.void(out), generate

    function = TileFunction(impossible_tile, ())
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="it cannot be made"):
            function.address()


def test_while_it_is_recorded_nothing_is_made() -> None:
    known = len(JOURNAL.made)
    with recording() as recorder:
        assert MULTIPLES.address(11) == MULTIPLES.address(12)
        MULTIPLES.address(11)
    assert [one.told for one in recorder.wanted] == [
        ("multiples_tile", "(11,)"),
        ("multiples_tile", "(12,)"),
    ]
    assert len(JOURNAL.made) == known
    assert MULTIPLES.address(11) != MULTIPLES.address(12)


def test_a_kernel_that_is_loaded_calls_nothing_of_a_tile_that_is_only_recorded() -> None:
    out, values = np.zeros(2 * LANES, np.float32), np.ones(LANES, np.float32)
    multiply(MULTIPLES.address(2), out, 0, np.array([0]), values, 0)
    out.fill(0)
    with recording() as recorder:
        multiply(MULTIPLES.address(13), out, 0, np.array([0]), values, 0)
    assert [one.told for one in recorder.wanted] == [("multiples_tile", "(13,)")]
    assert not out.any()
