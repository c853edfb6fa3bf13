"""`knltrain bench exchange`: exchanges of vectors by workers of one node, and by libraries.

Every contestant has P processes, one on the cores of each worker, that stay alive and are suspended
while others run. For each size all contestants hold their vectors and take turns; a copy by the
machine is one of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from affinity import read_topology
from affinity.process.cgroup import available_bytes
from knltrain.bench.exchange.contestants import (
    BOX,
    COPY,
    MASTERS,
    OURS,
    SEGMENT,
    Contestant,
    all_reduce_by,
    known_peers,
    soft_memory,
    started,
)
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.exchange.crew import Crew, assembled
from knltrain.bench.exchange.masters import tree_and_turns
from knltrain.bench.exchange.report import Measurement, lines, packing, rows
from knltrain.bench.exchange.sizes import FLOAT_BYTES, fitting, format_size
from knltrain.bench.exchange.turns import copied_bytes, hold_copies, take_turns
from knltrain.bench.exchange.vectors import Vectors
from knltrain.bench.step.peer_process import PeerError
from knltrain.cluster.variables import processor_settings
from knltrain.errors import ConfigError
from knltrain.launch.signals import signals_raise
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named


def run_exchange_benchmark(
    sizes: Sequence[int],
    workers: int,
    rounds: int,
    peers: Sequence[str],
    network: str | None = None,
    workers_per_core: int = 1,
) -> dict[str, Any]:
    """Measure our exchanges and `peers` on vectors of `sizes` bytes, in alternating `rounds`.

    The report has

    - the machine, the versions, and the copy_gbytes_per_second of all workers at once (bytes read
      and bytes written);
    - the `rows` and `lines` of `report`;
    - `masters`: a tree against visits one after another, by `masters.tree_and_turns`;
    - sizes `left_out` because they do not fit into memory, and `absent` peers, with the reasons;
    - the `packing` of a `network`, or None.

    So many `workers_per_core` share a core, where there are more workers than cores.

    Raises ConfigError for impossible settings, PeerError when a contestant fails, and RunAborted
    when a signal asks for the end; nothing is left behind then.
    """
    names = known_peers(peers)
    described = None if network is None else network_named(network)
    groups = cores_of(workers, workers_per_core)
    fit, left_out = _fitting(sizes, workers, len(names), described)
    with signals_raise(), ExitStack() as stack:
        sweep = [Vectors([size // FLOAT_BYTES], workers, box=True) for size in fit]
        of_network = [] if described is None else _of_network(described, workers)
        for vectors in (*sweep, *of_network):
            stack.callback(vectors.close)
        fds = [fd for vectors in (*sweep, *of_network) for fd in vectors.fds]
        crews, absent = _assembled(stack, names, groups, fds)
        there = [name for name in names if name in crews]
        exchanging = [*OURS, *map(all_reduce_by, there)]
        everyone = [*exchanging, *MASTERS, *soft_memory(workers)]
        measured = [take_turns([vectors], crews, everyone, workers, rounds)[0] for vectors in sweep]
        packed = _packing(described, of_network, crews, exchanging, measured, workers, rounds)
        versions = {name: crew.version for name, crew in crews.items() if name in (SEGMENT, *there)}
    return {
        "machine": _machine(groups),
        "settings": processor_settings(),
        "versions": versions,
        "workers": workers,
        "cores_per_worker": len(groups[0]),
        "workers_per_core": workers_per_core,
        "rounds": rounds,
        "peers": there,
        "absent": absent,
        "left_out": [{"bytes": size, "reason": reason} for size, reason in left_out.items()],
        "copy_gbytes_per_second": statistics.median(
            rate / 1e9 for each in measured for rate in each.copy
        ),
        "copy_rounds": [
            {"bytes": each.size, "gbytes_per_second": [rate / 1e9 for rate in each.copy]}
            for each in measured
        ],
        "rows": rows(measured, everyone, workers),
        "lines": lines(measured, exchanging),
        "masters": tree_and_turns(measured, workers),
        "packing": packed,
    }


def _fitting(
    sizes: Sequence[int], workers: int, peers: int, network: Network | None
) -> tuple[list[int], dict[int, str]]:
    """Return the sizes that fit into memory, and why the others do not."""
    # Segment with spares; box and what is read from it; libraries, which copy once.
    vectors = (2 * workers + 2) + (2 * workers + 1) + peers * 2 * workers
    copied = copied_bytes(workers)
    free = available_bytes()
    fit, left_out = fitting(sizes, vectors, copied, free)
    if not fit:
        size, reason = next(iter(left_out.items()))
        raise ConfigError(f"--sizes: none fits; with {format_size(size)} {reason}")
    if network is not None:
        # Packed and by layers at the same time.
        of_network = network.packed_size * FLOAT_BYTES
        _, reasons = fitting([of_network], 2 * vectors, copied, free)
        if reasons:
            raise ConfigError(f"--network {network.name}: {reasons[of_network]}")
    return fit, left_out


def _of_network(network: Network, workers: int) -> list[Vectors]:
    """Sizes of its packed vector, and of a vector for each parameter tensor."""
    packed = Vectors([network.packed_size], workers)
    try:
        return [packed, Vectors([spec.size for spec in network.parameters], workers)]
    except BaseException:
        packed.close()
        raise


def _assembled(
    stack: ExitStack, peers: Sequence[str], groups: Sequence[Sequence[int]], fds: Sequence[int]
) -> tuple[dict[str, Crew], dict[str, str]]:
    """Start one crew after the other; return them, and why some libraries cannot run."""
    crews: dict[str, Crew] = {}
    absent: dict[str, str] = {}
    for name in (*peers, COPY, SEGMENT, BOX):
        try:
            with ExitStack() as of_crew:
                crews[name] = assembled(of_crew, name, started(name, groups, fds))
                stack.push(of_crew.pop_all())
        except PeerError as error:
            if name not in peers:
                raise
            absent[name] = str(error)
    hold_copies(crews[COPY])
    return crews, absent


def _packing(
    network: Network | None,
    of_network: Sequence[Vectors],
    crews: Mapping[str, Crew],
    exchanging: Sequence[Contestant],
    measured: Sequence[Measurement],
    workers: int,
    rounds: int,
) -> dict[str, Any] | None:
    """Measure the packed vector of a network against one vector for each tensor."""
    if network is None:
        return None
    packed, layers = take_turns(of_network, crews, exchanging, workers, rounds)
    sizes = [size * FLOAT_BYTES for size in of_network[1].sizes]
    return {
        "network": network.name,
        "bytes": packed.size,
        "layers": len(sizes),
        "rows": packing(packed, layers, sizes, measured, exchanging),
    }


def _machine(groups: Sequence[Sequence[int]]) -> dict[str, Any]:
    topology = read_topology()
    cpus = [list(group) for group in groups]
    return {"model": topology.model, "isa": list(topology.isa), "cpus": cpus}
