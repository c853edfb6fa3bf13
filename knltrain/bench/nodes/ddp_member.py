"""A rank of PyTorch's DistributedDataParallel, as a peer of a run on several hosts.

    python -m knltrain.bench.nodes.ddp_member JOB RANK RANKS ADDRESS PORT BACKEND

JOB is a folder written by `knltrain.bench.step.job`. Speaks the protocol of
`knltrain.bench.step.protocol`: it answers a number of steps with {"steps", "seconds"}. It trains in
channels_last, with torch's fused SGD, its gradients in DDP's buckets.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from knltrain.bench.exchange.member import serve_apart
from knltrain.bench.step import protocol
from knltrain.bench.step.torch_graph import Graph
from knltrain.cluster.variables import set_unless_set
from knltrain.communication.rendezvous.network_interface import address_towards, interface_of

_MEETING = timedelta(minutes=5)


class _Loss(nn.Module):
    """The network with its loss, since DDP wraps one forward."""

    def __init__(self, network: Graph) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.network.loss(images, labels)


@final
class Rank:
    """A rank that finds the others, and makes its model, with the first question."""

    def __init__(
        self, job: Path, rank: int, ranks: int, address: str, port: int, backend: str
    ) -> None:
        self._job = job
        self._meeting = rank, ranks, address, port, backend
        self._step: Callable[[], None] | None = None

    def __call__(self, steps: Any) -> dict[str, Any]:
        """Take so many steps together with the other ranks."""
        if self._step is None:
            _join(*self._meeting)
            self._step = _training(self._job)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(int(steps)):
            self._step()
        dist.barrier()
        return {"steps": int(steps), "seconds": time.perf_counter() - begin}


def _training(job: Path) -> Callable[[], None]:
    """Return a step on the job's batch."""
    description = json.loads((job / "job.json").read_text(encoding="utf-8"))
    arrays = np.load(job / "arrays.npz")
    network = Graph(description)
    network.load(description["parameters"], arrays)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
    model = DistributedDataParallel(_Loss(network), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(
        model.parameters(),
        protocol.LEARNING_RATE,
        protocol.MOMENTUM,
        weight_decay=protocol.WEIGHT_DECAY,
        fused=True,
    )
    images = torch.from_numpy(arrays["images_nhwc"]).permute(0, 3, 1, 2)
    labels = torch.from_numpy(arrays["labels"])

    def step() -> None:
        optimizer.zero_grad()
        model(images, labels).backward()
        optimizer.step()

    return step


def _join(rank: int, ranks: int, address: str, port: int, backend: str) -> None:
    if backend == "ccl":
        import knltrain.torch_distributed  # noqa: F401 (registers it)
    store: Any = dist.TCPStore(  # type: ignore[attr-defined, unused-ignore]
        address, port, ranks, rank == 0, _MEETING
    )
    own = interface_of(address_towards(address))
    if own is not None:
        set_unless_set({"GLOO_SOCKET_IFNAME": own})
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=_MEETING)


def main(job: Path, rank: int, ranks: int, address: str, port: int, backend: str) -> None:
    """Serve until the end of input."""
    version = f"torch {torch.__version__}, threads: {torch.get_num_threads()}"
    serve_apart(version, Rank(job, rank, ranks, address, port, backend))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    _job, _rank, _ranks, _address, _port, _backend = sys.argv[1:]
    main(Path(_job), int(_rank), int(_ranks), _address, int(_port), _backend)
