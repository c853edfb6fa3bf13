"""`knltrain bench nodes`: how much of its speed a training keeps when its workers are on hosts.

The hosts are network namespaces of this machine, each with the cores of one worker, around a switch
of a given speed. They share what the machine has besides, so a training on all of them is compared
with one of as many workers on one host, round by round.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from affinity import read_topology
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.job import write_job
from knltrain.bench.nodes.hosts import hosts
from knltrain.bench.nodes.link import link_gbytes_per_second
from knltrain.bench.nodes.training import Ddp, Found, Ground, Ours, Training
from knltrain.bench.peer_process import PeerProcess
from knltrain.bench.step import SEED
from knltrain.bench.temporary_folder import temporary_folder
from knltrain.build import network_named
from knltrain.errors import ConfigError, unknown_name
from knltrain.launch.signals import signals_raise

_ALONE, _DDP_ALONE = "sync_easgd3", "gloo"
_METHOD, _LAYERWISE = "hierarchical_easgd", "layerwise_sgd"


def trainings() -> Mapping[str, Training]:
    """All that can be compared, by name."""
    ours = Ours("one-host", _ALONE, None)
    ddp = Ddp(_DDP_ALONE, spread=False)
    spread: list[Training] = []
    for between in ("ccl", "gloo"):
        spread += [
            Ours(between, _METHOD, between, ours.name),
            Ours(f"{between}-bfloat16", _METHOD, between, ours.name, "bfloat16"),
            Ours(f"layerwise-{between}", _LAYERWISE, between, ours.name),
            Ddp(between, spread=True, of_one_host=ddp.name),
        ]
    return {each.name: each for each in (ours, ddp, *spread)}


def run_nodes_benchmark(
    network: str,
    chosen: Sequence[str],
    *,
    nodes: int,
    gbits: float,
    batch: int,
    steps: int,
    rounds: int,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Train `network` in alternating `rounds`, on one host and on `nodes` of them, a worker each.

    `batch` images per worker and step, `steps` of them timed; `chosen` are names of `trainings`, or
    ("all",). A row of the report has the images per second of all workers, median and each round's,
    the efficiency: the median over the rounds of what it is of ours, or of DDP's, on one host (ours
    by `sync_easgd3`, the fastest there, whatever the method between hosts), and the share
    of communication that is `hidden`. Raises
    ConfigError for what cannot be measured, NoHosts where there can be none, PeerError when one
    breaks off, and RunAborted when a signal asks for the end; nothing is left behind then.
    """
    compared = _named(chosen)
    if nodes < 2:
        raise ConfigError(f"--nodes {nodes}: expected 2 or more, and a core for each")
    groups = cores_of(nodes)
    cpus = [cpu for group in groups for cpu in group]
    found: dict[str, list[Found]] = {each.name: [] for each in compared}
    with signals_raise(), hosts(nodes, gbits) as made, temporary_folder() as kept:
        write_job(kept.path, network_named(network), batch, SEED)
        ground = Ground(made, groups, network, kept.path, batch, steps)
        link = link_gbytes_per_second(made)
        before = _machine(cpus)
        for number in range(1, rounds + 1):
            for each in compared:
                one = _train(each, ground, kept.path)
                found[each.name].append(one)
                tell(
                    f"round {number} of {rounds}, {each.name}: {one.images_per_second:.2f} images/s"
                )
        after = _machine(cpus)
    return {
        "machine": {"model": read_topology().model, "before": before, "after": after},
        "network": network,
        "nodes": nodes,
        "cores_per_worker": len(groups[0]),
        "link_gbits": gbits,
        "link_gbytes_per_second": link,
        "batch_per_worker": batch,
        "steps": steps,
        "rounds": rounds,
        "rows": [_row(each, found) for each in compared],
    }


def _named(chosen: Sequence[str]) -> list[Training]:
    known = trainings()
    names = list(known) if tuple(chosen) == ("all",) else list(dict.fromkeys(chosen))
    if not names:
        raise ConfigError(f"--trainings: expected some of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ConfigError(unknown_name("--trainings", name, known))
    return [known[name] for name in names]


def _train(training: Training, ground: Ground, kept: Path) -> Found:
    folder = kept / "run"
    folder.mkdir()
    try:
        return training.train(ground, folder)
    finally:
        shutil.rmtree(folder)


def _machine(cpus: Sequence[int]) -> dict[str, float]:
    """Measure the machine's bounds while nothing else runs."""
    arguments = ["-m", "knltrain.bench.machine_peer", str(len(cpus))]
    with PeerProcess("machine", arguments, cpus) as machine:
        machine.wait_ready()
        bounds: dict[str, float] = machine.measure(3.0)
    return bounds


def _row(training: Training, found: Mapping[str, Sequence[Found]]) -> dict[str, Any]:
    own = [each.images_per_second for each in found[training.name]]
    base = [each.images_per_second for each in found.get(training.of_one_host or "", ())]
    shares = [mine / theirs for mine, theirs in zip(own, base, strict=False)]
    hidden = [each.hidden for each in found[training.name] if each.hidden is not None]
    return {
        "name": training.name,
        "what": training.what,
        "images_per_second": statistics.median(own),
        "of_rounds": list(own),
        "of_one_host": training.of_one_host if shares else None,
        "efficiency": statistics.median(shares) if shares else None,
        "efficiencies": shares,
        "hidden": statistics.median(hidden) if hidden else None,
    }
