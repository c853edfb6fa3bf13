"""What a worker process of the tests does: `scenario.py NAME PLACES RANK FILE [ARGUMENT]`.

PLACES are the descriptors of inherited segments, or `loopback:SIZE`, with commas between them.
Results go to FILE as npz, an error of ours as its kind and text.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import numpy as np

from knltrain.errors import KnltrainError
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.transport import Transport
from vectorized_ops.numba import elastic
from vectorized_ops.numba.elastic import synchronous_average

Arrays = dict[str, np.ndarray]

EXCHANGES = 4
SUMS = 6


def vector(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def contract(transport: Transport) -> Arrays:
    """Everything that a transport promises, once."""
    size, rank, workers = transport.local.size, transport.rank, transport.workers
    found: Arrays = {}

    def keep(name: str) -> None:
        found[f"{name}_local"] = transport.local.copy()
        found[f"{name}_center"] = transport.center.copy()

    rule = EASGD(0.9 / workers, elastic)
    average = ModelAveraging(workers, synchronous_average)
    transport.start_from(vector(99, size) if rank == 0 else None)
    keep("start")
    transport.local[:] = vector(rank, size)
    for exchange in range(EXCHANGES):
        transport.exchange(rule)
        keep(f"elastic{exchange}")
    transport.local[:] = vector(rank, size)
    transport.exchange(average)
    keep("average")
    for turn in range(SUMS):
        # Each in turn comes late, so that the others run ahead into the next sum.
        time.sleep(0.002 if turn % workers == rank else 0)
        values = np.array([turn + 1, 10.0**16 if rank == 0 else 1.0, 0.1 * rank])
        found[f"sum{turn}"] = transport.all_sum(values)
    found["many"] = transport.all_sum(np.arange(20.0) * (rank + 1))
    transport.check()
    transport.barrier()
    return found


VISITS = 50


class AddsUp(ExchangeRule):
    """Adds the local to the center, and notes what the center was: nothing may get lost."""

    center_vectors = 2

    def contribute(self, local: np.ndarray, center: np.ndarray, contribution: np.ndarray) -> None:
        contribution[:] = center

    def absorb(self, center: np.ndarray, kept: np.ndarray, contribution: np.ndarray) -> None:
        kept[0] += 1
        center[:] = contribution + self.number

    def follow(self, local: np.ndarray, center: np.ndarray, contribution: np.ndarray) -> None:
        local[:] = contribution

    def __init__(self, number: int) -> None:
        self.number = number


def visits(transport: Transport) -> Arrays:
    """Every worker comes to the center alone, often, in each order that loses nothing."""
    found: Arrays = {}
    rule, contribution = AddsUp(transport.rank + 1), np.zeros_like(transport.local)
    pace = random.Random(transport.rank)
    for order in ("first_come", "round_robin"):
        transport.start_from(np.zeros_like(transport.local))
        seen = []
        for _ in range(VISITS):
            if pace.random() < 0.1:
                time.sleep(pace.random() * 0.003)
            transport.visit(rule, contribution, order)
            seen.append(transport.local[0])
        transport.barrier()
        found[f"{order}_center"] = transport.center.copy()
        found[f"{order}_kept"] = transport.kept.copy()
        found[f"{order}_seen"] = np.array(seen)
        transport.barrier()
    transport.start_from(np.full_like(transport.local, 3))
    transport.visit(EASGD(0.5 / transport.workers, elastic), contribution, "lock_free")
    transport.barrier()
    found["still"] = transport.center.copy()
    return found


ROUNDS = 5000


def progress(transport: Transport) -> Arrays:
    """Every worker says how far it is and looks at the others, at its own pace."""
    transport.barrier()
    seen = np.array([transport.progress(number + 1) for number in range(ROUNDS)])
    transport.barrier()
    return {"seen": seen, "end": transport.progress(ROUNDS)}


def late_holder(transport: Transport) -> Arrays:
    """The last worker takes a lock and sleeps; the others want to pass."""
    transport.start_from(np.zeros_like(transport.local))
    contribution = np.zeros_like(transport.local)
    last = transport.rank == transport.workers - 1

    class Sleeps(AddsUp):
        def contribute(self, *vectors: np.ndarray) -> None:
            print("inside", flush=True)
            time.sleep(1000)

    if last:
        transport.visit(Sleeps(1), contribution, "first_come")
    time.sleep(0.5)
    print("waiting", flush=True)
    transport.visit(AddsUp(1), contribution, "first_come")
    return {}


def late_last(transport: Transport) -> Arrays:
    """All but the last worker wait for it; it says that it is there, and sleeps."""
    transport.start_from(np.zeros(transport.local.size, np.float32))
    if transport.rank == transport.workers - 1:
        print("asleep", flush=True)
        time.sleep(1000)
    print("waiting", flush=True)
    transport.exchange(EASGD(0.1, elastic))
    return {}


def late_but_comes(transport: Transport) -> Arrays:
    """The last worker lets the others wait until a little after both have been suspended."""
    transport.barrier()
    print("waiting", flush=True)
    if transport.rank == transport.workers - 1:
        began = before = now = time.monotonic()
        while now - before < 2 and now - began < 6:
            before = now
            time.sleep(0.01)
            now = time.monotonic()
        for _ in range(50):
            time.sleep(0.01)
    transport.barrier()
    return {}


def open_transports(places: str, rank: int, timeout_seconds: float) -> list[Transport]:
    found: list[Transport] = []
    for place in places.split(","):
        if place.startswith("loopback:"):
            found.append(Loopback(int(place.removeprefix("loopback:"))))
        else:
            found.append(NodeShared(Segment.attach(int(place)), rank, timeout_seconds))
    return found


def run(name: str, transports: list[Transport], argument: str) -> Arrays:
    if name == "contract":
        return {
            f"{transport.local.size}_{key}": value
            for transport in transports
            for key, value in contract(transport).items()
        }
    scenarios = {
        "late_last": late_last,
        "late_but_comes": late_but_comes,
        "late_holder": late_holder,
        "progress": progress,
        "visits": visits,
    }
    return scenarios[name](transports[0])


def main() -> None:
    name, places, rank, file, argument = sys.argv[1:]
    timeout_seconds = float(argument) if name.startswith("late") else 60.0
    found: Arrays
    try:
        transports = open_transports(places, int(rank), timeout_seconds)
        found = run(name, transports, argument)
        for transport in transports:
            transport.close()
    except KnltrainError as error:
        found = {
            "error": np.array([type(error).__name__, str(error)]),
            "exit_code": np.array(error.exit_code),
        }
    with Path(file).open("wb") as out:
        np.savez(out, **found)


if __name__ == "__main__":
    main()
