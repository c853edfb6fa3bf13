"""A training by knltrain itself, started as a user starts it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

from affinity import allowed_cpus, pinned_command
from knltrain.bench.nodes.configuration import configuration
from knltrain.bench.nodes.hosts import Hosts
from knltrain.bench.nodes.overlap import hidden_share
from knltrain.bench.nodes.training import LONGEST_SECONDS, Ground, Training, TrainingFigures
from knltrain.bench.step.peer_process import PeerError
from knltrain.clocks import COMMUNICATION
from knltrain.metrics import read_metrics

_COMPUTING = ("batch", "gradient", "update", "center_update")
_GRACE_SECONDS = 35.0
"""More than `knltrain launch` takes to end what it has started."""


@final
class KnltrainTraining(Training):
    """`knltrain train` by a method; `between` nodes by "ccl", "gloo", "mpi"; None on one host."""

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
        self.by = between
        self._method, self._wire_format = method, wire_format

    def train(self, ground: Ground, folder: Path) -> TrainingFigures:
        """Time the steps of each worker after its first one; some may take more than others."""
        (folder / "run.toml").write_text(self._configuration(ground), encoding="utf-8")
        try:
            status, said = carried_out(self._command(ground, folder), folder, LONGEST_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise PeerError(
                f"{self.name} took more than {LONGEST_SECONDS:g} s: take fewer --steps"
            ) from error
        if status:
            raise PeerError(f"{self.name} ended with {status}: {said[-2000:]}")
        return self._found(ground, folder / "runs/run")

    def _found(self, ground: Ground, run: Path) -> TrainingFigures:
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        costs, steps = result["cost_seconds"], result["worker_steps"]
        each = sum(steps) / len(steps)
        files = [run / f"trace-{rank}.json" for rank in range(len(steps))]
        traces = [file.read_text(encoding="utf-8") for file in files if file.exists()]
        shares = [share for share in map(hidden_share, traces) if share is not None]
        return TrainingFigures(
            _images_per_second(ground, run),
            sum(costs[name] for name in COMMUNICATION) / each,
            sum(costs[name] for name in _COMPUTING) / each,
            result["train_seconds"] / each,
            traces,
            sum(shares) / len(shares) if shares else None,
        )

    def _command(self, ground: Ground, folder: Path) -> list[str]:
        words = ["train", "run.toml", "--name", "run"]
        if self.by is None:
            return on_node(ground.cpus, words)
        return on_all(ground.hosts, ground.groups, folder, words)

    def _configuration(self, ground: Ground) -> str:
        method = f'method = "{self._method}"'
        if self.by is None:
            return configuration(ground, 1, method)
        written = f'wire_format = "{self._wire_format}"'
        between = f'between_nodes = "{self.by}"'
        return configuration(ground, ground.workers, "\n".join((method, between, written)))


def carried_out(
    command: Sequence[str], folder: Path, longest_seconds: float | None
) -> tuple[int, str]:
    """Run a command to its end; return its status and its standard error.

    If it takes more than `longest_seconds` (None: no limit), or a signal comes, it is asked to end
    first: a killed command leaves its children, which write into the folder for a moment more.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=longest_seconds)
        except BaseException:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_GRACE_SECONDS)
            raise
        finally:
            process.kill()
        return process.returncode, said


def _images_per_second(ground: Ground, run: Path) -> float:
    files = [run / f"metrics-{rank}.jsonl" for rank in range(ground.workers)]
    return ground.batch * sum(map(steps_per_second, files))


def steps_per_second(metrics: Path) -> float:
    """The rate of a worker's steps between the first record of its log and the last."""
    steps = [each for each in read_metrics(metrics) if each["kind"] == "train"]
    seconds = steps[-1]["seconds"] - steps[0]["seconds"]
    return float((steps[-1]["step"] - steps[0]["step"]) / seconds) if seconds else 0.0


def on_node(cpus: Sequence[int], words: Sequence[str]) -> list[str]:
    """The command that runs knltrain with these words on cpus of this machine."""
    own = [sys.executable, "-m", "knltrain", *words]
    return pinned_command(own, cpus, die_with_parent=os.getpid())


def on_all(
    hosts: Hosts, groups: Iterable[Sequence[int]], folder: Path, words: Sequence[str]
) -> list[str]:
    """The command that runs knltrain with these words on all hosts, each on a group of cpus.

    It needs files, which go into the folder.
    """
    names = [_way_file(folder, number, hosts, cpus).name for number, cpus in enumerate(groups)]
    to_all = ("--hosts", ",".join(names), "--address", hosts.addresses[0])
    via = ("--via", shlex.quote(f"{folder}/{{host}}"))
    launch = [sys.executable, "-m", "knltrain", "launch", *to_all, *via, *words]
    return pinned_command(launch, allowed_cpus(), die_with_parent=os.getpid())


def _way_file(folder: Path, number: int, hosts: Hosts, cpus: Sequence[int]) -> Path:
    """Write a program, named as a host, that runs its arguments there, on these cpus."""
    file = folder / f"host-{number + 1}"
    command = shlex.join(pinned_command(hosts.way(number), cpus))
    file.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    file.chmod(0o700)
    return file
