"""Steps of trainings by any method on emulated hosts, or by workers of one node, and their time."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from knltrain.assembly.names import plain_method
from knltrain.assembly.whole_run import check_period
from knltrain.bench.methods.settings import FEW_STEPS_SETTINGS
from knltrain.bench.nodes.configuration import CLASSES, network_of
from knltrain.bench.nodes.hosts import Hosts
from knltrain.bench.nodes.ours import carried_out, on_all, on_node, steps_per_second
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig, to_toml
from knltrain.exchange.strategies.method import Method

COMPUTING: Final = "none"
"""The method without exchanges."""

_LONGEST_SECONDS = 3600.0
NEVER: Final = {"every_epochs": 0, "at_end": False}
"""When a run that is only timed is evaluated, or kept."""

_ENDLESS, _EPOCH_STEPS = 10**9, 4


@final
@dataclass(frozen=True, slots=True)
class Ground:
    """Workers on the cpus of `groups`: one on each of the hosts, or all on one node."""

    hosts: Hosts | None
    groups: Sequence[Sequence[int]]


def configuration(
    network: str,
    method: str,
    ground_nodes: int,
    workers: int,
    images: int,
    steps: int,
    *,
    shares_cores: bool = False,
) -> RunConfig:
    """An endless run with `images` of each worker; ConfigError if it cannot be.

    `steps` are those that are timed. Where workers of one node never exchange, traces are written
    of the first ones. Workers that share cores are not pinned, and have a thread each.
    """
    settings = FEW_STEPS_SETTINGS[method]
    side, _, channels = network_of(network).input_shape
    drawn = {"train_images": workers * images * _EPOCH_STEPS, "test_images": images}
    data: dict[str, Any] = {"name": "synthetic", **drawn} if channels > 1 else {"name": "digits"}
    config = RunConfig.model_validate(
        {
            "nodes": ground_nodes,
            "workers": workers // ground_nodes,
            "network": {"name": network, "classes": CLASSES},
            "data": {**data, "side_pixels": side},
            "train": {
                "steps": _ENDLESS,
                "batch": workers * images,
                "trace_steps": steps + 1 if (method, ground_nodes) == (COMPUTING, 1) else 0,
            },
            "optimizer": dict(settings.optimizer),
            "learning_rate": {"base": settings.learning_rate},
            "exchange": {"method": method, **settings.exchange},
            "placement": {"pin": not shares_cores},
            "backend": {"threads": 1 if shares_cores else "auto"},
            "evaluation": NEVER,
            "checkpoint": {**NEVER, "every_minutes": 0},
        }
    )
    check_period(method_of(config), steps)
    return config


def method_of(config: RunConfig) -> Method:
    """The method of a run."""
    return plain_method(config, config.total_workers)


@final
@dataclass(frozen=True, slots=True)
class Steps:
    """The mean seconds of a step, and of traced steps what each worker has computed, (P, steps)."""

    seconds: float
    computing: npt.NDArray[np.float64]

    def waiting(self, period: int) -> float:
        """Seconds of a step in which the mean worker waits, if all meet every so many steps.

        The slowest of each period is waited for; workers are as fast as they are alone.
        """
        whole = self.computing.shape[1] // period * period
        if not whole:
            return 0.0
        of_periods = self.computing[:, :whole].reshape(len(self.computing), -1, period).sum(axis=2)
        return float((of_periods.max(axis=0) - of_periods.mean(axis=0)).mean() / period)


def waiting_of(rounds: Sequence[Steps], method: Method) -> float:
    """Seconds of a step of `method` in which a worker waits for the slowest; median of the rounds.

    `rounds` are of steps without exchanges.
    """
    if method.comes_at_any_time or method.period is None:
        return 0.0
    return statistics.median(each.waiting(method.period) for each in rounds)


def steps_of(config: RunConfig, ground: Ground, folder: Path) -> Steps:
    """Train, and time the steps after the first one; PeerError if it fails."""
    there = folder / "run"
    there.mkdir()
    try:
        (there / "run.toml").write_text(to_toml(config), encoding="utf-8")
        words = ["train", "run.toml", "--name", "run", "--no-pictures"]
        status, said = carried_out(command_of(ground, there, words), there, _LONGEST_SECONDS)
        if status:
            raise PeerError(said.strip()[-500:] or f"it ended with {status}")
        rates = [steps_per_second(each) for each in (there / "runs/run").glob("metrics-*.jsonl")]
        return Steps(statistics.mean(1 / rate for rate in rates), computing_in(there / "runs/run"))
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"more than {_LONGEST_SECONDS:g} s: take fewer --steps") from error
    finally:
        shutil.rmtree(there)


def computing_in(run: Path) -> npt.NDArray[np.float64]:
    """Seconds that each worker of a run has computed in its traced steps, (P, steps) or (1, 0)."""
    traces = [each.read_text(encoding="utf-8") for each in sorted(run.glob("trace-*.json"))]
    return np.array(list(map(_computing, traces)) or [[]])


def _computing(trace: str) -> list[float]:
    """Seconds that a worker has computed in each step after the first, by its trace."""
    found: dict[str, list[float]] = {name: [] for name in ("batch", "gradient", "update")}
    for event in json.loads(trace)["traceEvents"]:
        if event["ph"] == "X" and event["name"] in found:
            found[event["name"]].append(1e-6 * event["dur"])
    return [sum(parts) for parts in zip(*found.values(), strict=True)][1:]


def command_of(ground: Ground, folder: Path, words: Sequence[str]) -> list[str]:
    """The command that runs knltrain with these words there; files for it go into the folder."""
    if ground.hosts is not None:
        return on_all(ground.hosts, ground.groups, folder, words)
    return on_node(sorted({cpu for group in ground.groups for cpu in group}), words)
