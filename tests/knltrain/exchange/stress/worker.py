"""One worker of a stress: `worker.py SEED ROUNDS RANK BOX SEGMENT... [--without KIND] [--wrong N]`.

All workers draw the same order of operations from the seed, and each its own pace: sleeps and
yields. All numbers are whole and small enough for float32, so that every result must be exact. BOX
and SEGMENT are inherited file descriptors. Prints "going" when it is well under way, and in the end
"done" or what went wrong, with seed and round. `--wrong N` makes a mistake in round N.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable

import numpy as np

from knltrain.communication.memory_box.local import SoftMemoryBox
from knltrain.errors import KnltrainError
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.transport import Order
from vectorized_ops.numba.elastic import synchronous_average

Array = np.ndarray

LIMIT_SECONDS = 60.0
GOING_AFTER_ROUNDS = 300
SLEEPS, YIELDS = 0.002, 0.02
"""How often, at the start of a round."""
LONGEST_SLEEP_SECONDS = 0.002


class AddsUp(ExchangeRule):
    """Adds the contribution to the center, and shows the local what has come of it."""

    def contribute(self, local: Array, center: Array, contribution: Array) -> None:
        """Bring the contribution as it is."""

    def absorb(self, center: Array, kept: Array, contribution: Array) -> None:
        center += contribution

    def follow(self, local: Array, center: Array, contribution: Array) -> None:
        local[:] = center


class Member:
    """A worker in one segment: what it does there, and what must come of it."""

    def __init__(self, segment: Segment, rank: int) -> None:
        self.transport = NodeShared(segment, rank, LIMIT_SECONDS)
        self.rank, self.workers = rank, self.transport.workers
        self._average = ModelAveraging(self.workers, synchronous_average)
        self._contribution = np.full(segment.size, rank + 1, np.float32)
        self._all = sum(range(1, self.workers + 1))
        self.center = 0.0

    def average(self, number: int, _order: Order) -> None:
        self.transport.local[:] = self.workers * number + self.rank
        self.transport.exchange(self._average)
        self.center = self.workers * number + (self.workers - 1) / 2
        self._check_now_and_then(number)

    def start(self, number: int, _order: Order) -> None:
        values = np.full(self.transport.local.size, number, np.float32) if not self.rank else None
        self.transport.start_from(values)
        self.center = float(number)
        self._check_now_and_then(number)

    def sums(self, number: int, _order: Order) -> None:
        found = self.transport.all_sum(np.array([float(number), float(self.rank)]))
        self._check("sum", found[:1], number * self.workers)
        self._check("sum of ranks", found[1:], self._all - self.workers)

    def visit(self, _number: int, order: Order) -> None:
        self.transport.visit(AddsUp(), self._contribution, order)
        if order == "round_robin":
            mine = self.center + sum(range(1, self.rank + 2))
            self._check("local after ranks before", self.transport.local, mine)
        self._check_center_of_all()

    def push(self, _number: int, order: Order) -> None:
        self.transport.push(AddsUp(), self._contribution, order)
        self._check_center_of_all()

    def _check_now_and_then(self, number: int) -> None:
        """The own local always; the center seldom, as nobody may come to it alone meanwhile."""
        self._check("local", self.transport.local, self.center)
        if number % 3 == 0:
            self._check("center", self.transport.center, self.center)
            self.transport.barrier()

    def _check_center_of_all(self) -> None:
        self.transport.barrier()
        self.center += self._all
        self._check("center", self.transport.center, self.center)
        self.transport.barrier()

    def _check(self, what: str, found: Array, expected: float) -> None:
        if np.any(found != expected):
            wrong = np.flatnonzero(found != expected)
            raise AssertionError(
                f"{what} of {found.size} elements: {found[wrong[0]]} at {wrong[0]} and "
                f"{wrong.size - 1} more, expected {expected}"
            )


class Boxes:
    """A worker at a Soft Memory Box, with one buffer of its own and one that all share."""

    def __init__(self, box: SoftMemoryBox, key: int, meeting: Member) -> None:
        self._box, self._meeting = box, meeting
        self._shared = box.open(key)
        self._own = box.create_buffer(self._shared.size)
        self._own.write(np.full(self._own.size, meeting.rank + 1, np.float32))
        self._found = np.empty(self._shared.size, np.float32)
        self._sum = 0.0
        self._all = sum(range(1, meeting.workers + 1))

    def accumulate(self, number: int, _order: Order) -> None:
        self._shared.accumulate(self._own)
        self._meeting.transport.barrier()
        self._sum += self._all
        self._check()
        if self._sum > 2**20:
            self._begin_again()
        self._meeting.transport.barrier()

    def notify(self, number: int, _order: Order) -> None:
        """All tell all, and each waits until it has heard of everyone."""
        event, heard = number % 8, 0
        self._shared.notify(event)
        while heard < self._meeting.workers:
            heard += self._shared.wait(event)
        if heard != self._meeting.workers:
            raise AssertionError(f"{heard} notifications, expected {self._meeting.workers}")
        self._meeting.transport.barrier()

    def make(self, number: int, _order: Order) -> None:
        """Everyone makes a buffer and frees it, all at once."""
        made = self._box.create_buffer(1 + number % 5000)
        found = np.empty(made.size, np.float32)
        made.read(found)
        self._meeting._check("new buffer", found, 0)
        made.write(found + number)
        made.scale(2.0)
        made.read(found)
        self._meeting._check("buffer", found, 2 * number)
        made.free()

    def _begin_again(self) -> None:
        self._meeting.transport.barrier()
        if self._meeting.rank == 0:
            self._shared.scale(0.0)
        self._sum = 0.0

    def _check(self) -> None:
        self._shared.read(self._found)
        self._meeting._check("shared buffer", self._found, self._sum)


Operation = Callable[[int, Order], None]


def operations(members: list[Member], boxes: Boxes, without: list[str]) -> list[Operation]:
    """What is drawn from: the larger a vector is the less often, as it takes longer."""
    found: list[Operation] = []
    for times, member in zip((8, 8, 4, 1), members, strict=True):
        each = [member.average, member.average, member.sums, member.sums, member.sums]
        found += times * [*each, member.start, member.visit, member.push]
    kinds = {"accumulate": boxes.accumulate, "notify": boxes.notify, "make": boxes.make}
    for kind, operation in kinds.items():
        found += 5 * [operation] * (kind not in without)
    return found


def run(members: list[Member], boxes: Boxes, options: argparse.Namespace) -> None:
    draw, pace = random.Random(options.seed), random.Random(f"{options.seed}/{options.rank}")
    choices = operations(members, boxes, options.without)
    orders: tuple[Order, ...] = ("first_come", "round_robin")
    for number in range(options.rounds):
        operation, order = draw.choice(choices), draw.choice(orders)
        chance = pace.random()
        if chance < SLEEPS:
            time.sleep(pace.random() * LONGEST_SLEEP_SECONDS)
        elif chance < SLEEPS + YIELDS:
            os.sched_yield()
        if number == GOING_AFTER_ROUNDS:
            print("going", flush=True)
        wrong = number == options.wrong and options.rank == members[0].workers - 1
        try:
            operation(number + wrong, order)
            if wrong:
                members[0].sums(number + 1, order)
            elif number == options.wrong:
                members[0].sums(number, order)
        except AssertionError as error:
            name = f"{operation.__func__.__qualname__}, {order}"
            raise AssertionError(f"seed {options.seed}, round {number} ({name}): {error}") from None


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("seed", "rounds", "rank", "box", "key"):
        parser.add_argument(name, type=int)
    parser.add_argument("segments", type=int, nargs="+")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--wrong", type=int, default=-1)
    options = parser.parse_args()
    try:
        members = [Member(Segment.attach(fd), options.rank) for fd in options.segments]
        box = SoftMemoryBox.attach(options.box, LIMIT_SECONDS)
        members[0].transport.barrier(LIMIT_SECONDS)
        run(members, Boxes(box, options.key, members[0]), options)
        members[0].transport.barrier()
        print("done", flush=True)
    except (AssertionError, KnltrainError) as error:
        print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
