"""Loops and branches around vectors: what the tiles of operations bound by memory are made of.

Flags are one bit wide and known at run time only; a branch that always goes the same way costs
next to nothing, and spares a kernel for every combination of options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value

_INT64 = ir.IntType(64)


def fold(
    lanes: Lanes,
    first: Value,
    last: Value,
    start: Sequence[Value],
    body: Callable[[Value, list[Value]], list[Value]],
) -> list[Value]:
    """Run `body(index, values) -> values` for first <= index < last, if need be never."""
    builder = lanes.builder
    before = builder.block
    head, inside, after = (
        builder.append_basic_block(f"tile.{name}") for name in ("next", "body", "end")
    )
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(_INT64)
    index.add_incoming(lanes.integer(first), before)
    values = [builder.phi(value.type) for value in start]
    more = builder.icmp_signed("<", index, lanes.integer(last))
    builder.cbranch(more, inside, after)
    builder.position_at_end(inside)
    results = body(index, list(values))
    index.add_incoming(lanes.sum(index, 1), builder.block)
    for phi, initial, result in zip(values, start, results, strict=True):
        phi.add_incoming(initial, before)
        phi.add_incoming(result, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return values


def repeat(lanes: Lanes, steps: Value, body: Callable[[Value], None]) -> None:
    """Run `body(index)` for 0 <= index < steps."""

    def step(index: Value, _values: list[Value]) -> list[Value]:
        body(index)
        return []

    fold(lanes, 0, steps, [], step)


def several(lanes: Lanes, steps: Value, size: int, body: Callable[[Value, int], None]) -> None:
    """Run `body(index, number)` for 0 <= index < steps: `size` at a time, the rest singly."""
    whole = lanes.quotient(steps, size)
    repeat(lanes, whole, lambda index: body(lanes.product(index, size), size))
    done = lanes.product(whole, size)
    rest = lanes.builder.sub(steps, done)
    repeat(lanes, rest, lambda index: body(lanes.sum(done, index), 1))


def groups(lanes: Lanes, vectors: Value, size: int, body: Callable[[Value, int], None]) -> None:
    """Run `body(offset, number)` over `vectors` vectors: `size` at a time, the rest singly."""
    several(lanes, vectors, size, lambda index, number: body(lanes.product(index, LANES), number))


def when(
    lanes: Lanes,
    flag: Value,
    values: Sequence[Value],
    change: Callable[[list[Value]], list[Value]],
) -> list[Value]:
    """Return `change(values)` if the flag is set, else `values`."""
    builder = lanes.builder
    before = builder.block
    with builder.if_then(flag):
        changed = change(list(values))
        inside = builder.block
    results = []
    for value, other in zip(values, changed, strict=True):
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        phi.add_incoming(other, inside)
        results.append(phi)
    return results


def if_any_is_nan(lanes: Lanes, vectors: Sequence[Value], emit: Callable[[], None]) -> None:
    """Emit code that is run, rarely, if the sum of the vectors is NaN in any lane."""
    builder, total, bits = lanes.builder, vectors[0], ir.IntType(LANES)
    for vector in vectors[1:]:
        total = lanes.add(total, vector)
    found = builder.bitcast(builder.fcmp_unordered("uno", total, total), bits)
    with builder.if_then(builder.icmp_unsigned("!=", found, bits(0)), likely=False):
        emit()
