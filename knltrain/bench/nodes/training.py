"""The trainings to compare: knltrain's own, and PyTorch's DDP, on one host or on all of them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from affinity import allowed_cpus, pinned_command
from knltrain.bench.nodes.hosts import Hosts
from knltrain.bench.peer_process import PeerError, PeerProcess
from knltrain.bench.peers import MEMORY_KEPT
from knltrain.build import network_named
from knltrain.clocks import COMMUNICATION
from knltrain.metrics import read_metrics

LONGEST_SECONDS = 3600.0
_PORT = 29_500


@dataclass(frozen=True, slots=True)
class Ground:
    """Where all of them train: `groups` are the cpus of each worker, a worker for each host.

    `network` takes `batch` images per worker and step, `steps` of which are timed; `job` is a
    folder that `knltrain.bench.job` has written.
    """

    hosts: Hosts
    groups: Sequence[Sequence[int]]
    network: str
    job: Path
    batch: int
    steps: int

    @property
    def workers(self) -> int:
        """How many there are in all."""
        return len(self.groups)


@dataclass(frozen=True, slots=True)
class Found:
    """Of all workers, `images_per_second`; of communication, the share `hidden` behind computing.

    That is 1 - e / b, where exchanges took a thread beside the computing ones b seconds, and the
    worker waited for them, or exchanged otherwise, for e seconds. None where there is no thread.
    """

    images_per_second: float
    hidden: float | None = None


class Training(ABC):
    """A way to train, with a `name` and what it is; `of_one_host` is the one to compare it with."""

    name: str
    what: str
    of_one_host: str | None

    @abstractmethod
    def train(self, ground: Ground, folder: Path) -> Found:
        """Train from the beginning, in an empty folder.

        Raises PeerError where it cannot.
        """


@final
class Ours(Training):
    """`knltrain train` by a method; `between` nodes by "ccl" or "gloo", or None on one host."""

    def __init__(
        self,
        name: str,
        method: str,
        between: str | None,
        of_one_host: str | None = None,
        wire_format: str = "float32",
    ) -> None:
        self.name = name
        self.what = (
            method if between is None else f"{method}, {between} in {wire_format} between hosts"
        )
        self.of_one_host = of_one_host
        self._method, self._between, self._wire_format = method, between, wire_format

    def train(self, ground: Ground, folder: Path) -> Found:
        """Time the steps from the first that is reported to the last."""
        (folder / "run.toml").write_text(self._configuration(ground), encoding="utf-8")
        try:
            done = subprocess.run(
                self._command(ground, folder),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"{self.name} took more than {LONGEST_SECONDS:.0f} s") from error
        if done.returncode:
            raise PeerError(f"{self.name} ended with {done.returncode}: {done.stderr[-2000:]}")
        run = folder / "runs/run"
        records = read_metrics(run / "metrics-0.jsonl")
        first, *_, last = (each for each in records if each["kind"] == "train")
        steps = last["step"] - first["step"]
        images = steps * ground.batch * ground.workers
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        return Found(images / (last["seconds"] - first["seconds"]), _hidden(result))

    def _command(self, ground: Ground, folder: Path) -> list[str]:
        own = [sys.executable, "-m", "knltrain"]
        words = ["train", "run.toml", "--name", "run"]
        if self._between is None:
            cpus = sorted(cpu for group in ground.groups for cpu in group)
            return pinned_command([*own, *words], cpus, die_with_parent=os.getpid())
        names = [_way_file(ground, number, folder).name for number in range(ground.workers)]
        to_all = ("--hosts", ",".join(names), "--address", ground.hosts.addresses[0])
        launch = [*own, "launch", *to_all, "--via", f"{folder}/{{host}}", *words]
        return pinned_command(launch, allowed_cpus(), die_with_parent=os.getpid())

    def _configuration(self, ground: Ground) -> str:
        side = network_named(ground.network).input_shape[0]
        nodes = 1 if self._between is None else ground.workers
        written = f'wire_format = "{self._wire_format}"'
        between = "" if self._between is None else f'between_nodes = "{self._between}"\n{written}'
        return f"""
            workers = {ground.workers // nodes}
            [network]
            name = "{ground.network}"
            classes = 10
            [data]
            name = "synthetic"
            side_pixels = {side}
            train_images = {ground.batch * ground.workers * 4}
            test_images = {ground.batch}
            [train]
            batch = {ground.batch * ground.workers}
            steps = {ground.steps + 1}
            [learning_rate]
            base = 0.0001
            [backend]
            threads = {len(ground.groups[0])}
            [exchange]
            method = "{self._method}"
            {between}
            [evaluation]
            every_epochs = 0
            [checkpoint]
            every_epochs = 0
            """


@final
class Ddp(Training):
    """DistributedDataParallel, a process for each worker; all on the first host, or on one each."""

    def __init__(self, backend: str, *, spread: bool, of_one_host: str | None = None) -> None:
        self.name = f"ddp-{backend if spread else 'one-host'}"
        self.what = f"DistributedDataParallel over {backend}"
        self.of_one_host = of_one_host
        self._backend, self._spread = backend, spread

    def train(self, ground: Ground, folder: Path) -> Found:  # noqa: ARG002
        """Time steps of all ranks together, after the first."""
        with ExitStack() as stack:
            ranks = [
                stack.enter_context(self._rank(ground, rank)) for rank in range(ground.workers)
            ]
            for each in ranks:
                each.wait_ready()
            _seconds(ranks, 1)  # they meet, and take a step
            seconds = _seconds(ranks, ground.steps)
        return Found(ground.steps * ground.batch * ground.workers / seconds)

    def _rank(self, ground: Ground, rank: int) -> PeerProcess:
        way = ground.hosts.way(rank if self._spread else 0)
        place = (ground.hosts.addresses[0], str(_PORT), self._backend)
        member = [sys.executable, "-m", "knltrain.bench.nodes.ddp_member", str(ground.job)]
        return PeerProcess(
            self.name,
            [*way[1:], *member, str(rank), str(ground.workers), *place],
            ground.groups[rank],
            python=way[0],
            environment=MEMORY_KEPT,
        )


def _hidden(result: Mapping[str, Any]) -> float | None:
    beside = result["background_seconds"]
    exposed = sum(result["cost_seconds"][name] for name in COMMUNICATION)
    return 1 - exposed / beside if beside else None


def _seconds(ranks: Sequence[PeerProcess], steps: int) -> float:
    for each in ranks:
        each.ask(steps)
    return max([float(each.answer()["seconds"]) for each in ranks])


def _way_file(ground: Ground, number: int, folder: Path) -> Path:
    """Write a program, named as a host, that runs its arguments there, on its worker's cpus."""
    file = folder / f"host-{number + 1}"
    command = shlex.join(pinned_command(ground.hosts.way(number), ground.groups[number]))
    file.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    file.chmod(0o700)
    return file
