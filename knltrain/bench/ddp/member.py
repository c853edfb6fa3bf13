"""A rank that trains by DDP: `python -m ...ddp.member RANK WORKERS BACKEND WIDTH BATCH [MODULE]`.

Speaks the protocol of `knltrain.bench.exchange.member`, with two questions of its own:

    {"do": "train", "steps": n}           {"losses": [...]}, of the first n steps
    {"do": "run", "count": n, ...}        {"begin": ..., "end": ...} of n more steps

MODULE is imported first: it registers a backend that PyTorch does not have.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Mapping
from typing import Any, final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from knltrain.bench.exchange.member import serve_apart
from knltrain.bench.exchange.torch_member import TorchMember

_LEARNING_RATE = 1e-3
_VGG_WIDTH, _VGG_CLASSES = 4096, 1000
_VGG_PLACES = 49
"""Pixels of the map that the layers are given; its channels are an eighth of their width."""


def fully_connected(width: int) -> nn.Sequential:
    """The three layers at the end of VGG, `width` wide; VGG's are 4096, 123.6 million weights."""
    return nn.Sequential(
        nn.Linear(inputs_of(width), width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, classes_of(width)),
    )


def inputs_of(width: int) -> int:
    """Inputs of the first layer, 25,088 in VGG."""
    return width // 8 * _VGG_PLACES


def classes_of(width: int) -> int:
    """Outputs of the last layer, 1000 in VGG."""
    return max(2, _VGG_CLASSES * width // _VGG_WIDTH)


@final
class Training:
    """A model and its batch: the same model in all ranks and backends, a batch for each rank."""

    def __init__(self, rank: int, width: int, batch: int) -> None:
        torch.manual_seed(0)
        self._model = DistributedDataParallel(fully_connected(width), gradient_as_bucket_view=True)
        self._optimizer = torch.optim.SGD(self._model.parameters(), _LEARNING_RATE)
        torch.manual_seed(1 + rank)
        self._images = torch.randn(batch, inputs_of(width), dtype=torch.float32, device="cpu")
        self._labels = torch.randint(
            0, classes_of(width), (batch,), dtype=torch.int64, device="cpu"
        )

    def step(self) -> float:
        """Forward, backward with its all-reduce, and update; the loss before it."""
        self._optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self._model(self._images), self._labels)
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        self._optimizer.step()
        return float(loss)


@final
class Answers:
    """A rank's answers to the questions above."""

    def __init__(self, rank: int, workers: int, backend: str, width: int, batch: int) -> None:
        self.member = TorchMember(rank, workers, backend)
        self._described = rank, width, batch
        self._training: Training | None = None

    def __call__(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one question."""
        if question["do"] == "token":
            return {"token": self.member.token()}
        if question["do"] == "join":
            self.member.join(question["token"])
            self._training = Training(*self._described)
            return {}
        assert self._training is not None
        if question["do"] == "train":
            return {"losses": [self._training.step() for _ in range(question["steps"])]}
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(question["count"]):
            self._training.step()
        return {"begin": begin, "end": time.perf_counter()}


def main(
    rank: int, workers: int, backend: str, width: int, batch: int, module: str | None = None
) -> None:
    """Serve until the end of input."""
    if module is not None:
        importlib.import_module(module)
    answers = Answers(rank, workers, backend, width, batch)
    serve_apart(answers.member.version, answers)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    _rank, _workers, _backend, _width, _batch = sys.argv[1:6]
    main(int(_rank), int(_workers), _backend, int(_width), int(_batch), *sys.argv[6:])
