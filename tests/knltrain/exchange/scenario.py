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
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.easgd import EASGD
from knltrain.exchange.loopback import Loopback
from knltrain.exchange.node_shared import NodeShared
from knltrain.exchange.segment import Segment
from knltrain.exchange.transport import Transport
from vectorized_ops.numba.elastic import synchronous_average, synchronous_elastic_update

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

    elastic = EASGD(0.9 / workers, workers, synchronous_elastic_update)
    average = ModelAveraging(workers, synchronous_average)
    transport.start_from(vector(99, size) if rank == 0 else None)
    keep("start")
    transport.local[:] = vector(rank, size)
    for exchange in range(EXCHANGES):
        transport.exchange(elastic)
        keep(f"elastic{exchange}")
    transport.local[:] = vector(rank, size)
    transport.exchange(average)
    keep("average")
    for turn in range(SUMS):
        # Each in turn comes late, so that the others run ahead into the next sum.
        time.sleep(0.002 if turn % workers == rank else 0)
        values = np.array([turn + 1, 10.0**16 if rank == 0 else 1.0, 0.1 * rank])
        found[f"sum{turn}"] = transport.all_sum(values)
    transport.check()
    transport.barrier()
    return found


def stress(transports: list[Transport], rounds: int) -> Arrays:
    """Exchanges of different sizes and kinds in a random order that all workers share."""
    rank, workers = transports[0].rank, transports[0].workers
    order, pace = random.Random(5), random.Random(rank)
    average = ModelAveraging(workers, synchronous_average)
    wrong = 0
    for number in range(rounds):
        transport = order.choice(transports)
        action = order.random()
        if pace.random() < 0.02:
            time.sleep(pace.random() * 0.003)
        if action < 0.6:
            transport.local[:] = workers * number + rank
            transport.exchange(average)
            expected = np.float32(workers * number + (workers - 1) / 2)
            wrong += int(np.any(transport.local != expected))
            wrong += int(np.any(transport.center != expected))
        elif action < 0.9:
            total = transport.all_sum(np.array([float(number), float(rank)]))
            wrong += int(total.tolist() != [workers * number, workers * (workers - 1) / 2])
        else:
            transport.barrier()
    return {"wrong": np.array(wrong), "rounds": np.array(rounds)}


def late_last(transport: Transport) -> Arrays:
    """All but the last worker wait for it; it says that it is there, and sleeps."""
    transport.start_from(np.zeros(transport.local.size, np.float32))
    if transport.rank == transport.workers - 1:
        print("asleep", flush=True)
        time.sleep(1000)
    print("waiting", flush=True)
    transport.exchange(EASGD(0.1, transport.workers, synchronous_elastic_update))
    return {}


def late_but_comes(transport: Transport) -> Arrays:
    """The last worker lets the others wait half a second, in which it must be running."""
    transport.barrier()
    print("waiting", flush=True)
    if transport.rank == transport.workers - 1:
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
    if name == "stress":
        return stress(transports, int(argument))
    return {"late_last": late_last, "late_but_comes": late_but_comes}[name](transports[0])


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
