"""`knltrain bench cnn`: whole networks while they train, layer by layer, alone and distributed.

After the benchmark of H. Kim's thesis (Seoul National University, 2020), for connected networks: a
network is profiled (`knltrain.profile`) on one worker, on several of a node that exchange over its
segment, and on several hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from affinity import allowed_cpus, pinned_command, read_topology
from knltrain.bench.cnn.summary import kind_rows, step_row
from knltrain.bench.exchange.cores import groups_of
from knltrain.bench.nodes.hosts import Hosts, hosts
from knltrain.bench.nodes.ours import carried_out, on_all
from knltrain.bench.nodes.training import LONGEST_SECONDS
from knltrain.bench.step.peer_process import PeerError
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError, RunFolderError
from knltrain.exchange.strategies.strategy import strategy_named
from knltrain.files.durable import reason_of, write_whole
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder
from knltrain.network.zoo.networks import network_named
from knltrain.profile.reading import read_profile

GBITS = 10.0
"""Of a link between hosts."""

_IMAGES_OF_A_WORKER = 4
"""Batches of images that a worker has; they are drawn at random."""


@final
@dataclass(frozen=True, slots=True)
class Ground:
    """So many `workers` on a node, or one on each of as many hosts, by a method."""

    workers: int
    is_on_hosts: bool
    method: str

    @property
    def name(self) -> str:
        """As it is shown."""
        kind = "host" if self.is_on_hosts else "worker"
        return f"{self.workers} {kind}{'s' * (self.workers > 1)}"


def run_cnn_benchmark(
    networks: Sequence[str],
    workers: Sequence[int],
    host_counts: Sequence[int],
    *,
    batch: int,
    steps: int,
    method: str,
    profiles: Path | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Profile `steps` steps of each network on each ground; `batch` images a worker.

    `workers` are numbers of them on this node, `host_counts` of emulated hosts with one each. A
    method that exchanges the gradient while it is computed does so layer by layer. The report has
    `rows` and `kinds`, see `knltrain.bench.cnn.summary`; the profiles themselves (docs/profile.md)
    go into the folder `profiles`. Raises ConfigError for impossible settings,
    NoHosts where there can be none, and PeerError when a training fails.
    """
    for name in networks:
        network_named(name)
    grounds = [Ground(count, False, method) for count in workers]
    grounds += [Ground(count, True, method) for count in host_counts]
    if not networks or not grounds:
        raise ConfigError("nothing to measure: expected --networks, and --workers or --hosts")
    cores = len(groups_of(read_topology(), allowed_cpus(), 1, None)[0])
    for each in grounds:
        if not (1 + each.is_on_hosts) <= each.workers <= cores:
            raise ConfigError(
                f"{each.name}: expected {1 + each.is_on_hosts} or more, and at most one for each "
                f"of {cores} cores"
            )
    with signals_raise():
        told = []
        for network, ground, profile in _profiles(networks, grounds, batch, steps, tell):
            told.append((network, ground.name, profile))
            if profiles is not None:
                _keep(profiles / f"{network}-{ground.name.replace(' ', '-')}.json", profile)
    return {
        "machine": {"model": read_topology().model},
        "batch_per_worker": batch,
        "steps": steps,
        "method": method,
        "link_gbits": GBITS if host_counts else None,
        "rows": [step_row(*each) for each in told],
        "kinds": [row for each in told for row in kind_rows(*each)],
    }


def _keep(file: Path, profile: Mapping[str, Any]) -> None:
    try:
        write_whole(file, json.dumps(profile) + "\n")
    except OSError as error:
        raise RunFolderError(f"{file}: cannot be written ({reason_of(error)})") from error


def _profiles(
    networks: Sequence[str],
    grounds: Sequence[Ground],
    batch: int,
    steps: int,
    tell: Callable[[str], None],
) -> Iterator[tuple[str, Ground, dict[str, Any]]]:
    for ground in grounds:
        with ExitStack() as stack:
            made = stack.enter_context(hosts(ground.workers, GBITS)) if ground.is_on_hosts else None
            for name in networks:
                with temporary_folder() as kept:
                    found = _profiled(name, ground, made, kept.path, batch, steps)
                step = 1e3 * found["step_seconds"]["mean"]
                tell(f"{name}, {ground.name}: {step:.2f} ms a step")
                yield name, ground, found


def _profiled(
    network: str, ground: Ground, made: Hosts | None, folder: Path, batch: int, steps: int
) -> dict[str, Any]:
    nodes = 1 if made is None else ground.workers
    (folder / "run.toml").write_text(_configuration(network, ground, nodes, batch))
    words = ["profile", "run.toml", "--name", "run", "--steps", str(steps), "--rows", "1"]
    if made is None:
        own = [sys.executable, "-m", "knltrain", *words]
        command = pinned_command(own, allowed_cpus(), die_with_parent=os.getpid())
    else:
        groups = groups_of(read_topology(), allowed_cpus(), ground.workers, None)
        command = on_all(made, groups, folder, words)
    try:
        status, said = carried_out(command, folder, LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{network}, {ground.name}: takes too long: take fewer --steps") from error
    if status:
        raise PeerError(f"{network}, {ground.name}: ended with {status}: {said[-2000:]}")
    return read_profile(folder / "runs/run")


def _configuration(network: str, ground: Ground, nodes: int, batch: int) -> str:
    images = batch * ground.workers * _IMAGES_OF_A_WORKER
    method = ground.method if ground.workers > 1 else "none"
    between = {"between_nodes": "gloo"} if nodes > 1 else {}
    tables: dict[str, dict[str, object]] = {
        "network": {"name": network},
        "data": {"name": "random", "train_images": images, "test_images": batch},
        "train": {"batch": batch * ground.workers, "steps": 1},
        "learning_rate": {"base": 1e-4, "policy": "fixed"},
        "exchange": {"method": method, **_by_layers(method), **between},
        "preemption": {"signals": []},
    }
    lines = [f"workers = {ground.workers // nodes}"]
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join([*lines, ""])


def _by_layers(method: str) -> dict[str, str]:
    """The setting by which each layer is exchanged alone, where parts of a gradient are."""
    facts = METHODS.get(method)
    if facts is None or facts.levels is not None:
        return {}
    strategy = strategy_named(facts.strategy)
    return {"packing": "per_layer"} if strategy.takes_parts and strategy.hears_of_parts else {}
