"""A node of the tests: `node_member.py BACKEND SCENE NODE NODES PORT FD`; prints JSON lines."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

import numpy as np

import knltrain.torch_distributed  # noqa: F401  (registers ccl)
from affinity.process.binding import thread_bindings
from knltrain.cluster.worker import MeetingPoint
from knltrain.communication.gaspi import MPIRanks
from knltrain.communication.internode.collective import NodeCollective
from knltrain.communication.internode.gaspi_collective import GaspiCollective
from knltrain.communication.internode.mpi_collective import MpiCollective
from knltrain.communication.internode.torch_collective import TorchCollective
from knltrain.communication.internode.wire.compressed import CompressedCollective
from knltrain.communication.internode.wire.formats import Bfloat16, Float4, Int8, TopK
from knltrain.communication.rendezvous.torch_store import TorchStore, meeting_store
from knltrain.errors import KnltrainError
from vectorized_ops.reference import top_k, wire

BEFORE: set[int] = set()
"""Threads of this process before it met the others."""


def tell(what: Any) -> None:
    print(json.dumps(what), flush=True)


def operations(found: NodeCollective) -> None:
    tell([found.node, found.nodes, found.name])
    values = (np.arange(50_001) % 7 * (found.node + 1)).astype(np.float32)
    found.all_reduce(values)
    tell(bool(np.array_equal(values, np.arange(50_001) % 7 * sum(range(found.nodes + 1)))))
    values = np.full(1000, found.node + 1, np.float32)
    found.reduce(values)
    tell([float(values.min()), float(values.max())])
    values = np.full(2, found.node + 1, np.float32)
    found.broadcast(values)
    tell(values.tolist())
    tell(found.gather(np.array([found.node, 0.5])).tolist())
    rows = np.zeros((found.nodes, 70_001), np.uint8)
    found.all_gather(np.full(70_001, 7 + found.node, np.uint8), rows)
    tell(bool((rows == 7 + np.arange(found.nodes)[:, None]).all()))
    given = (10 * found.node + np.arange(found.nodes, dtype=np.uint8))[:, None] + np.zeros(999)
    taken = np.zeros((found.nodes, 999), np.uint8)
    found.all_to_all(given.astype(np.uint8), taken)
    tell(bool((taken == 10 * np.arange(found.nodes)[:, None] + found.node).all()))


def written(found: NodeCollective) -> None:
    """Each format: a digest of the sums, and how far they and what is kept are from the truth."""
    size = 100_003
    for name, made in (
        ("bfloat16", Bfloat16(wire)),
        ("int8", Int8(wire)),
        ("float4", Float4(wire)),
        ("top_k", TopK(top_k, 0.01, size)),
    ):
        collective = CompressedCollective(found, made, size)
        digest, arrived, given = hashlib.sha256(), np.zeros(size), np.zeros(size)
        for time_ in range(3):
            every = np.random.default_rng(time_).standard_normal((found.nodes, size), np.float32)
            values = every[found.node].copy()
            collective.all_reduce(values)
            digest.update(values.tobytes())
            arrived += values
            given += every.sum(axis=0)
        kept = np.zeros(size)
        if collective.residual.size:
            kept = found.gather(collective.residual.astype(np.float64)).sum(axis=0)
        off = float(np.abs(arrived + kept - given).max() / np.abs(given).max())
        tell([name, digest.hexdigest(), off])


def late(found: NodeCollective) -> None:
    values = np.ones(1000, np.float32)
    found.all_reduce(values)
    if found.node:
        time.sleep(4)
        os._exit(0)
    found.all_reduce(values)


def killed(found: NodeCollective) -> None:
    values = np.ones(1000, np.float32)
    found.all_reduce(values)
    if found.node:
        os.kill(os.getpid(), 9)
    found.all_reduce(values)


def threads(found: NodeCollective) -> None:
    """Cpus and class of scheduling of every thread that came with the collective."""
    found.all_reduce(np.ones(1000, np.float32))
    came = [each["id"] for each in thread_bindings() if each["id"] not in BEFORE]
    told = []
    for thread in came:
        with suppress(ProcessLookupError):  # oneCCL's threads for setting up may end meanwhile
            told.append([sorted(os.sched_getaffinity(thread)), os.sched_getscheduler(thread)])
    tell(told)


def _made(
    backend: str, node: int, nodes: int, point: MeetingPoint, limit_seconds: float
) -> NodeCollective:
    if backend not in ("mpi", "gaspi"):
        name = backend.removeprefix("torch's ")
        return TorchCollective(name, node, nodes, point, limit_seconds, 60)
    store = TorchStore(meeting_store(point, 60))
    by_mpi = MpiCollective(node, nodes, store, point.own_address, limit_seconds, 60)
    return by_mpi if backend == "mpi" else GaspiCollective(by_mpi, MPIRanks, 2**21, limit_seconds)


SCENES = {each.__name__: each for each in (operations, written, late, killed, threads)}


def main() -> int:
    backend, scene, node, nodes, port, fd = sys.argv[1:]
    point = MeetingPoint("127.0.0.1", int(port), "127.0.0.1", None if fd == "-" else int(fd))
    try:
        limit = 1 if scene == "late" else 30
        BEFORE.update(each["id"] for each in thread_bindings())
        found = _made(backend, int(node), int(nodes), point, limit)
        SCENES[scene](found)
        found.close()
    except KnltrainError as error:
        tell([type(error).__name__, str(error)])
        sys.stdout.flush()
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
