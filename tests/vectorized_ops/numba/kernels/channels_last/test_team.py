from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba import types

import vectorized_ops.torch._team as pytorchs_team
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.channels_last.team import (
    THREADS,
    address,
    argument,
    emit_in_team,
    flag,
    number,
    part,
    use_team,
)

_, OUT, NUMBERS, FLAG, SIZE = range(THREADS, THREADS + 5)


def counting_pass() -> Any:
    """Counts for every share: how often it was done, where it begins, and a flag."""

    @tile
    def counting(typingctx: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = Lanes(context, builder, signature).pointer(0, args[0])

            def work(lanes: Lanes, given: Any, share: Any, shares: Any) -> None:
                inside, integer = lanes.builder, ir.IntType(64)
                row = lanes.at(address(lanes, given, OUT, integer), lanes.product(share, 3))
                inside.store(inside.add(inside.load(row), integer(1)), row)
                begin = part(lanes, argument(lanes, given, SIZE), share, shares)
                inside.store(begin, lanes.at(row, 1))
                inside.store(inside.zext(flag(lanes, given, FLAG), integer), lanes.at(row, 2))

            emit_in_team(context, builder, signature, given, work)
            return context.get_dummy_value()

        return types.void(arguments), generate

    return counting


def check_shares(run: Any) -> None:
    for shares in (1, 2, 3, 7):
        out = np.zeros((shares, 3), np.int64)
        run(np.array([shares, out.ctypes.data, 0, 5, 100], np.int64))
        expected = [[1, share * 100 // shares, 1] for share in range(shares)]
        assert out.tolist() == expected


def test_every_share_is_done_once_whatever_the_number_of_threads() -> None:
    counting = counting_pass()

    @kernel
    def run(arguments: Any) -> None:
        counting(arguments)

    check_shares(run)


@pytest.fixture
def team_of_one() -> Iterator[None]:
    """An OpenMP that has no other thread left, as inside of another parallel region."""
    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    parallel = ctypes.CFUNCTYPE(None, body, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    number = ctypes.CFUNCTYPE(ctypes.c_int)
    functions = (
        parallel(lambda body, data, *_: body(data)),
        number(lambda: 0),
        number(lambda: 1),
    )
    use_team(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions))
    yield
    pytorchs_team._borrow_team()


def test_no_share_is_left_out_if_the_team_is_small(team_of_one: None) -> None:
    counting = counting_pass()

    @kernel
    def run_alone(arguments: Any) -> None:
        counting(arguments)

    check_shares(run_alone)


@tile
def number_tile(typingctx: Any, out: Any, arguments: Any) -> Any:
    """The double among the arguments, in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        value = number(lanes, lanes.pointer(1, args[1]), NUMBERS)
        lanes.store(value, lanes.pointer(0, args[0]))
        return context.get_dummy_value()

    return types.void(out, arguments), generate


@kernel
def write_number(out: Any, arguments: Any) -> None:
    number_tile(out, arguments)


def test_doubles_pass_as_their_bits() -> None:
    out = np.zeros(LANES, np.float32)
    (bits,) = np.array([0.1]).view(np.int64)
    write_number(out, np.array([1, 0, bits], np.int64))
    assert (out == np.float32(0.1)).all()
