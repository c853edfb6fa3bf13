"""Steps of trainings by any method on emulated hosts, or by workers of one node, and their time."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from affinity import pinned_command
from knltrain.assembly.names import plain_method
from knltrain.assembly.whole_run import check_period
from knltrain.bench.methods.settings import FEW_STEPS_SETTINGS
from knltrain.bench.nodes.configuration import CLASSES, network_of
from knltrain.bench.nodes.hosts import Hosts
from knltrain.bench.nodes.ours import carried_out, on_all, steps_per_second
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig, to_toml

COMPUTING: Final = "none"
"""The method without exchanges."""

_LONGEST_SECONDS = 900.0
_NEVER: Final = {"every_epochs": 0, "at_end": False}
_EPOCH_STEPS = 4


@final
@dataclass(frozen=True, slots=True)
class Ground:
    """Workers on the cpus of `groups`: one on each of the hosts, or all on one node."""

    hosts: Hosts | None
    groups: Sequence[Sequence[int]]

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.groups)


def configuration(
    network: str, method: str, ground_nodes: int, workers: int, images: int, steps: int
) -> RunConfig:
    """The run of so many steps with `images` of each worker; ConfigError if it cannot be."""
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
            "train": {"steps": steps + 1, "batch": workers * images},
            "optimizer": dict(settings.optimizer),
            "learning_rate": {"base": settings.learning_rate},
            "exchange": {"method": method, **settings.exchange},
            "evaluation": _NEVER,
            "checkpoint": {**_NEVER, "every_minutes": 0},
            "preemption": {"signals": []},
        }
    )
    check_period(plain_method(config, workers), steps)
    return config


def overlaps(config: RunConfig) -> bool:
    """Whether a part of the method's exchange goes on beside computing."""
    method = plain_method(config, config.total_workers)
    return method.strategy.overlaps(method)


def seconds_of_step(config: RunConfig, ground: Ground, folder: Path) -> float:
    """Train, and return the mean seconds of a step after the first one; PeerError if it fails."""
    there = folder / "run"
    there.mkdir()
    try:
        (there / "run.toml").write_text(to_toml(config), encoding="utf-8")
        words = ["train", "run.toml", "--name", "run", "--no-pictures"]
        status, said = carried_out(_command(ground, there, words), there, _LONGEST_SECONDS)
        if status:
            raise PeerError(said.strip()[-500:] or f"it ended with {status}")
        rates = [steps_per_second(each) for each in (there / "runs/run").glob("metrics-*.jsonl")]
        return statistics.mean(1 / rate for rate in rates)
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"more than {_LONGEST_SECONDS:g} s: take fewer --steps") from error
    finally:
        shutil.rmtree(there)


def _command(ground: Ground, folder: Path, words: Sequence[str]) -> list[str]:
    if ground.hosts is not None:
        return on_all(ground.hosts, ground.groups, folder, words)
    cpus = sorted(cpu for group in ground.groups for cpu in group)
    own = [sys.executable, "-m", "knltrain", *words]
    return pinned_command(own, cpus, die_with_parent=os.getpid())
