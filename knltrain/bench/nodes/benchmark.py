"""`knltrain bench nodes`: how much of its speed a training keeps when its workers are on hosts.

The hosts are network namespaces of this machine, each with the cores of one worker, around a switch
of a given speed. Several hosts may be given the same cores. Hosts share the rest of the machine, so
a training on all of them is compared, round by round, with one of as many workers on one host.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from affinity import read_topology
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.nodes.configuration import network_of
from knltrain.bench.nodes.hosts import hosts
from knltrain.bench.nodes.link import link_gbytes_per_second
from knltrain.bench.nodes.rows import row, star_by_seasgd
from knltrain.bench.nodes.training import Ground, Training, TrainingFigures
from knltrain.bench.nodes.trainings import named
from knltrain.bench.step.benchmark import SEED
from knltrain.bench.step.bounds import bounds_of
from knltrain.bench.step.job import write_job
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder


def run_nodes_benchmark(
    network: str,
    chosen: Sequence[str],
    *,
    nodes: int,
    gbits: float,
    batch: int,
    steps: int,
    rounds: int,
    latency_us: float = 0.0,
    workers_per_core: int = 1,
    trace_steps: int = 0,
    traces: Path | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Train `network` in alternating `rounds`, on one host and on `nodes` of them, a worker each.

    `batch` images per worker and step, `steps` of them timed; `chosen` are names of `trainings`, or
    ("all",). A row of the report has

    - the images per second of all workers, median and each round's;
    - the efficiency: the median, over the rounds, of its speed divided by that of ours (by
      `sync_easgd3`, the fastest there), or of DDP's, on one host;
    - the seconds of each part of a step, and the share of exchanges that is `hidden`, by the traces
      alone.

    Of the first `trace_steps` steps our own trainings write traces, and the last round's of each
    are kept as `traces`/trace-NAME-RANK.json. `workers_per_core` hosts share a core: waiting for it
    counts as part of the work that waits. `latency_us` is the delay of messages; it costs cpu time.

    Raises ConfigError for impossible settings, NoHosts where there can be none, PeerError when one
    fails, and RunAborted when a signal asks for the end; nothing is left behind then.
    """
    compared, described = named(chosen), network_of(network)
    groups = cores_of(nodes, workers_per_core, "--nodes")
    with signals_raise(), hosts(nodes, gbits, latency_us) as made, temporary_folder() as kept:
        write_job(kept.path, described, batch, SEED)
        ground = Ground(made, groups, network, kept.path, batch, steps, trace_steps)
        link, before = link_gbytes_per_second(made), bounds_of(ground.cpus)
        found: dict[str, list[TrainingFigures]] = {each.name: [] for each in compared}
        for number, each in product(range(1, rounds + 1), compared):
            one = _train(each, ground, kept.path)
            found[each.name].append(one)
            _keep(one, each.name, traces)
            tell(f"round {number} of {rounds}, {each.name}: {one.images_per_second:.2f} images/s")
        after = bounds_of(ground.cpus)
    return {
        "machine": {"model": read_topology().model, "before": before, "after": after},
        "network": network,
        "nodes": nodes,
        "cores_per_worker": len(groups[0]),
        "workers_per_core": workers_per_core,
        "link_gbits": gbits,
        "link_latency_us": latency_us,
        "link_gbytes_per_second": link,
        "batch_per_worker": batch,
        "steps": steps,
        "rounds": rounds,
        "rows": [row(each, found) for each in compared],
        "star_by_seasgd": star_by_seasgd(found),
    }


def _train(training: Training, ground: Ground, kept: Path) -> TrainingFigures:
    folder = kept / "run"
    folder.mkdir()
    try:
        return training.train(ground, folder)
    finally:
        shutil.rmtree(folder)


def _keep(found: TrainingFigures, name: str, traces: Path | None) -> None:
    """Write the traces of a round over those of an earlier one."""
    if traces is not None:
        for rank, text in enumerate(found.traces):
            (traces / f"trace-{name}-{rank}.json").write_text(text, encoding="utf-8")
