"""A worker of the benchmark: `python -m ...elastic.member NETWORK BATCH METHOD OPTIONS THREADS`.

A launcher's variables tell its rank. It trains two copies of a network by one loop of PyTorch, on
the same images: one by itself, one with `Elastic`. OPTIONS are its options, as JSON. Speaks the
protocol of `knltrain.bench.exchange.member`; its questions are

    {"do": "losses", "steps": n}                              {"losses": [[...], [...]]}
    {"do": "run", "operation": "plain" or "elastic", "count": n}   {"begin": ..., "end": ...}
    {"do": "leave"}                                           {}, for all workers at once
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import nn

from knltrain.bench.exchange.member import serve_apart
from knltrain.elastic import Elastic
from knltrain.interchange.to_torch import to_torch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named

_LEARNING_RATE, _MOMENTUM = 1e-3, 0.9
PLAIN, ELASTIC = "plain", "elastic"


@final
class Training:
    """Two loops over the same images, and what joins the second one with other workers."""

    def __init__(self, network: Network, batch: int, method: str, options: dict[str, Any]) -> None:
        models = {name: _model(network) for name in (PLAIN, ELASTIC)}
        self._optimizers = {
            name: torch.optim.SGD(model.parameters(), _LEARNING_RATE, _MOMENTUM, fused=True)
            for name, model in models.items()
        }
        self.run = Elastic(models[ELASTIC], self._optimizers[ELASTIC], method, **options)
        self._models = models
        self._ends: dict[str, Callable[[], None]] = {
            PLAIN: self._step_alone,
            ELASTIC: self.run.step,
        }
        torch.manual_seed(1 + self.run.team.rank)
        height, width, channels = network.input_shape
        images = torch.randn(batch, channels, height, width, dtype=torch.float32, device="cpu")
        self._images = images.to(memory_format=torch.channels_last)
        (classes,) = network.output_shape
        self._labels = torch.randint(0, classes, (batch,), dtype=torch.int64, device="cpu")

    def step(self, name: str) -> float:
        """One step of a loop; its loss."""
        found = nn.functional.cross_entropy(self._models[name](self._images), self._labels)
        found.backward()  # type: ignore[no-untyped-call, unused-ignore]
        self._ends[name]()
        return found.item()

    def _step_alone(self) -> None:
        optimizer = self._optimizers[PLAIN]
        optimizer.step()
        optimizer.zero_grad()


def _model(network: Network) -> nn.Module:
    """The network with the same values each time, in memory of PyTorch's own."""
    parameters = ParameterVector(network)
    parameters.initialise(1)
    model: nn.Module = to_torch(network, parameters, lambda part: torch.from_numpy(part.copy()))
    return model.train()


@final
class Answers:
    """A worker's answers to the questions above."""

    def __init__(self, network: Network, batch: int, method: str, options: dict[str, Any]) -> None:
        self._given = network, batch, method, options
        self._training: Training | None = None

    def __call__(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one question."""
        if question["do"] == "token":
            return {"token": ""}  # the launcher's variables let workers find each other
        if question["do"] == "join":
            self._training = Training(*self._given)
            return {}
        training = self._training
        assert training is not None
        if question["do"] == "losses":
            steps = range(question["steps"])
            losses = []
            for name in (PLAIN, ELASTIC):
                torch.manual_seed(0)  # dropout draws the same in both
                losses.append([training.step(name) for _ in steps])
            return {"losses": losses}
        if question["do"] == "leave":
            training.run.close()
            return {}
        training.run.barrier()
        begin = time.perf_counter()
        for _ in range(question["count"]):
            training.step(question["operation"])
        training.run.barrier()  # with what is pushed in the background
        return {"begin": begin, "end": time.perf_counter()}


def main(network: str, batch: int, method: str, options: dict[str, Any], threads: int) -> None:
    """Serve until the end of input."""
    torch.set_num_threads(threads)
    answers = Answers(network_named(network), batch, method, options)
    serve_apart(f"torch {torch.__version__}", answers)


if __name__ == "__main__":
    _network, _batch, _method, _options, _threads = sys.argv[1:]
    main(_network, int(_batch), _method, json.loads(_options), int(_threads))
