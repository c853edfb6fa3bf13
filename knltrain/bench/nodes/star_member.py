"""A rank of a parameter server by messages, such as that of Inspur's Caffe-MPI.

    python -m knltrain.bench.nodes.star_member CONFIG RANK RANKS ADDRESS PORT

In each step rank 0, the master, receives the gradient of every other rank, moves its weights by
the mean of all, and sends them to every other rank, which waits meanwhile. The master computes a
gradient itself: otherwise it would have to receive and send one vector more. CONFIG is a run's
configuration; network, data, rates, optimizer and backend are built from it as the engine does.

Speaks the protocol of `knltrain.bench.step.protocol`: it answers a number of steps with {"steps",
"seconds", "communication_seconds", "computing_seconds", "losses", "weights"}, the last a CRC; and
LEAVE, which must come at the end, with {}. ADDRESS and PORT are where rank 0 listens.
"""

from __future__ import annotations

import math
import sys
import time
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any, final

import torch.distributed as dist

from knltrain import __version__
from knltrain.assembly import build_backend, build_dataset, build_network, build_optimizer
from knltrain.assembly.whole_run import total_steps
from knltrain.bench.exchange.member import serve_apart
from knltrain.bench.nodes.star import LEAVE
from knltrain.bench.nodes.star_exchange import StarExchange
from knltrain.clocks import Clock
from knltrain.communication.mpi.joining import join_mpi, leave_mpi
from knltrain.communication.rendezvous.network_interface import address_towards
from knltrain.communication.rendezvous.torch_store import TorchStore
from knltrain.config import RunConfig, load_config
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.errors import NonFiniteLoss
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.learning_rate import learning_rate_at

_MEETING_SECONDS, _STEP_SECONDS, _LEAVE_SECONDS = 300.0, 300.0, 5.0


@final
class Rank:
    """A rank that finds the others, and makes its model, with the first question."""

    def __init__(self, config: RunConfig, rank: int, ranks: int, address: str, port: int) -> None:
        self._config = config
        self._meeting = rank, ranks, address, port
        self._steps: Steps | None = None

    def __call__(self, question: Any) -> dict[str, Any]:
        """Take so many steps together with the other ranks; or leave."""
        if question == LEAVE:
            leave_mpi(_LEAVE_SECONDS)
            return {}
        if self._steps is None:
            mpi = _join(*self._meeting)
            self._steps = Steps(self._config, mpi, threads=int(self._config.backend.threads))
        return self._steps.take(int(question))


@final
class Steps:
    """The steps of a rank of ``mpi``.COMM_WORLD."""

    def __init__(self, config: RunConfig, mpi: Any, threads: int) -> None:
        rank, ranks = mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size
        network, images = build_network(config), build_dataset(config).train
        self._batches = ShardedBatches(images, config.train.batch, rank, ranks, config.seed)
        self._done, self._total = 0, total_steps(config, self._batches.steps_per_epoch)
        self._rates = config.learning_rate
        each = self._batches.images_per_worker
        self._batch = Batch.allocate(each, network.input_shape)
        self._backend = build_backend(config, network, each, threads)
        self._optimizer = build_optimizer(config, network)
        parameters = ParameterVector(network)
        parameters.initialise(config.seed)  # the same at all
        self._weights, self._gradient = parameters.packed, ParameterVector(network).packed
        self._exchange = StarExchange(mpi, self._weights.size, _STEP_SECONDS)
        self._computing = Clock()

    def take(self, steps: int) -> dict[str, Any]:
        """Take so many more steps; the answer has the seconds of all together."""
        exchange = self._exchange
        exchange.barrier()
        for clock in (exchange.communication, exchange.update, self._computing):
            clock.seconds = 0.0
        begin = time.perf_counter()
        losses = [self._step() for _ in range(steps)]
        exchange.barrier()
        return {
            "steps": steps,
            "seconds": time.perf_counter() - begin,
            "communication_seconds": exchange.communication.seconds,
            "computing_seconds": self._computing.seconds + exchange.update.seconds,
            "losses": losses,
            "weights": zlib.crc32(self._weights.data),
        }

    def _step(self) -> float:
        with self._computing:
            self._batches.fill(self._done, self._batch)
            loss = self._backend.loss_and_gradient(self._batch, self._weights, self._gradient)
        if not math.isfinite(loss):
            where = self._backend.first_non_finite(self._batch, self._weights)
            raise NonFiniteLoss(self._done, where)
        self._exchange.step(self._gradient, self._weights, self._move)
        self._done += 1
        return loss

    def _move(self) -> None:
        rate = learning_rate_at(self._rates, self._done, self._total)
        self._optimizer.step(self._weights, self._gradient, rate)


def _join(rank: int, ranks: int, address: str, port: int) -> Any:
    store: Any = dist.TCPStore(  # type: ignore[attr-defined, unused-ignore]
        address, port, None, rank == 0, timedelta(seconds=_MEETING_SECONDS), wait_for_workers=False
    )
    own = address_towards(address)
    return join_mpi(rank, ranks, TorchStore(store), _MEETING_SECONDS, own)


def main(config: Path, rank: int, ranks: int, address: str, port: int) -> None:
    """Serve until the end of input."""
    serve_apart(f"knltrain {__version__}", Rank(load_config(config), rank, ranks, address, port))


if __name__ == "__main__":
    _config, _rank, _ranks, _address, _port = sys.argv[1:]
    main(Path(_config), int(_rank), int(_ranks), _address, int(_port))
