"""What workers do with a transport, and what must come of it in every interleaving."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from interleaving.segments import Program

from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.transport import Order

Array: TypeAlias = np.ndarray


class SumsUp(SynchronousRule):
    """Adds what workers bring to the center, in two accesses; gives all of it to all at once."""

    def contribute(self, local: Array, center: Array, contribution: Array) -> None:
        contribution[:] = center

    def absorb(self, center: Array, kept: Array, contribution: Array) -> None:
        center[:] = center + contribution

    def follow(self, local: Array, center: Array, contribution: Array) -> None:
        """Nothing."""

    def visit(self, local: Array, center: Array, kept: Array, contribution: Array) -> None:
        center[:] = center + contribution
        local[:] = center

    def synchronise(self, locals_: Array, center: Array, kept: Array) -> None:
        # Not np.add.reduce, which keeps its arguments for ever when an access is the last of a run.
        center[:] = center + np.sum(locals_, axis=0)
        locals_[:] = center


def own_number(transport: NodeShared) -> Array:
    """What a worker brings: numbers whose sums tell who has brought how much."""
    return np.full(transport.local.size, 100**transport.rank, np.float32)


def meets(rounds: int) -> Program:
    """Nobody leaves a barrier before all have come to it."""
    reached: dict[int, int] = {}

    def program(transport: NodeShared) -> None:
        for number in range(rounds):
            reached[transport.rank] = number
            transport.barrier()
            assert all(reached[rank] >= number for rank in range(transport.workers)), "left early"

    return program


def exchanges(rounds: int) -> Program:
    """The center gets the sum of all locals in every round, and all locals get the center."""

    def program(transport: NodeShared) -> None:
        expected = 0
        for number in range(1, rounds + 1):
            transport.local[:] = number + transport.rank
            transport.exchange(SumsUp())
            expected += sum(number + rank for rank in range(transport.workers))
            assert np.all(transport.local == expected), "local"
            assert np.all(transport.center == expected), "center"

    return program


def starts(transport: NodeShared) -> None:
    """All begin with the values of rank 0; what was before is gone."""
    transport.local[:] = 7
    size = transport.local.size
    transport.start_from(np.full(size, 3, np.float32) if transport.rank == 0 else None)
    assert np.all(transport.local == 3), "start values"
    assert np.all(transport.center == 3), "start values"
    transport.local[:] = 4  # nobody reads it any more


def sums(rounds: int) -> Program:
    """Every sum is that of its own round."""

    def program(transport: NodeShared) -> None:
        for number in range(1, rounds + 1):
            found = transport.all_sum(np.array([float(number), number * transport.rank]))
            ranks = transport.workers * (transport.workers - 1) / 2
            assert found.tolist() == [number * transport.workers, number * ranks], "sum"

    return program


def visits(rounds: int, order: Order) -> Program:
    """Brings its number so many times; `expected_center` must be there in the end."""

    def program(transport: NodeShared) -> None:
        contribution = own_number(transport)
        for _ in range(rounds):
            transport.visit(SumsUp(), contribution, order)

    return program


def pushes(rounds: int, order: Order) -> Program:
    """The same, one way."""

    def program(transport: NodeShared) -> None:
        contribution = own_number(transport)
        for _ in range(rounds):
            transport.push(SumsUp(), contribution, order)

    return program


def expected_center(workers: int, rounds: int) -> int:
    """What comes of `visits` or `pushes` in every element."""
    return sum(rounds * 100**rank for rank in range(workers))


def all_kinds(transport: NodeShared) -> None:
    """One of each, after each other, without a barrier between."""
    starts(transport)
    transport.local[:] = 1
    transport.exchange(SumsUp())
    assert np.all(transport.local == 3 + transport.workers)
    transport.push(SumsUp(), own_number(transport), "first_come")
    total = transport.all_sum(np.array([1.0]))
    assert total.tolist() == [transport.workers]
    pushed = expected_center(transport.workers, 1)
    assert np.all(transport.center == 3 + transport.workers + pushed)
