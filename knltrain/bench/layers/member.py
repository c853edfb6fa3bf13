"""A rank of `bench layers`: `python -m ...layers.member JSON`; JSON has the fields of `Task`.

Speaks the protocol of `knltrain.bench.step.protocol`: asked for a number of steps, it answers
{"machine": ..., "rows": [...]}, with the keys of `Machine` and `Row`.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from knltrain.bench.layers.chain import Chain
from knltrain.bench.step.protocol import serve
from knltrain.distributed_ops import Machine, NodeReducer, Options, table, use_threads
from knltrain.network.zoo.networks import network_named

_WARM_STEPS = 2
_LATE_SECONDS = 300.0
"""Timeout for other ranks, which may compile kernels."""


@dataclass(frozen=True, slots=True)
class Task:
    """The task of a rank."""

    network: str
    batch: int
    chunks: int
    implementation: str
    rank: int
    ranks: int
    address: str
    threads: int


def main() -> None:
    """Make the layers, warm up with two steps, and serve."""
    task = Task(**json.loads(sys.argv[1]))
    options = Options(task.implementation)
    use_threads(task.threads, options)
    with closing(NodeReducer.meet(task.address, task.rank, task.ranks, _LATE_SECONDS)) as reducer:
        network = network_named(task.network)
        chain = Chain(network, task.batch, task.chunks, reducer, options)
        for _ in range(_WARM_STEPS):
            chain.step()
        serve({}, lambda steps: measured(chain, int(steps)))


def measured(chain: Chain, steps: int) -> dict[str, Any]:
    """Take so many steps, and return the times of each layer."""
    machine = Machine.measured()
    for layer in chain.layers:
        layer.clear_times()
    for _ in range(steps):
        chain.step()
    rows = [asdict(row) for row in table(chain.layers, machine)]
    return {"machine": asdict(machine), "rows": rows}


if __name__ == "__main__":
    main()
