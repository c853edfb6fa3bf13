"""The contents of a checkpoint: those of the run, those of one worker, and the files' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from knltrain.data.contents import DataContents
from knltrain.network.network import Network
from knltrain.optimizers.optimizer import StateArray
from knltrain.vectors import FloatArray

FORMAT_VERSION = 4
WITHOUT_DIGESTS = 3
"""The previous format, which can be read, but has no digests."""
CENTER = "center.safetensors"
DESCRIPTION = "state.json"

LOCAL = "local"
OPTIMIZER = "optimizer."
EXCHANGE = "exchange."
"""The worker's tensors: its local, and the state of optimizer and exchange by such names."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The identity of the run in its checkpoints."""

    network: Network
    workers: int
    method: str
    seed: int
    data: DataContents | None = None
    """The run's data set."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """All that one worker needs to go on after `step` steps of its own; n is the packed size."""

    step: int
    center: FloatArray
    """The model, (n,)."""
    local: FloatArray
    """This worker's own parameters, (n,)."""
    optimizer: Mapping[str, StateArray]
    seconds: Mapping[str, float]
    """Readings of the worker's clocks."""
    exchange: Mapping[str, FloatArray] = field(default_factory=dict)
    """What the method of exchange keeps from one to the next, arrays (n,)."""


def worker_file(folder: Path, rank: int) -> Path:
    """The file of one worker in a checkpoint's folder."""
    return folder / f"worker-{rank}.safetensors"


def shapes(network: Network) -> dict[str, list[int]]:
    """Shape of every parameter by its name, as `state.json` has them."""
    return {each.name: list(each.shape) for each in network.parameters}
