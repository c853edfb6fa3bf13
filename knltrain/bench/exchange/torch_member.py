"""Any backend of torch.distributed: `python -m ...torch_member RANK WORKERS BACKEND [MODULE]`.

MODULE is imported first: it registers a backend that PyTorch does not have.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, final

import torch
import torch.distributed as dist

from knltrain.bench.exchange.all_reduce import ReducedVectors
from knltrain.bench.exchange.member import Answers, HeldVectors, Member, serve_apart

_HOST = "127.0.0.1"


@final
class TorchMember(Member):
    """A rank of a process group."""

    def __init__(self, rank: int, workers: int, backend: str) -> None:
        self.version = f"torch {torch.__version__}"
        self._rank, self._workers, self._backend = rank, workers, backend
        self._store: Any = None

    def token(self) -> str:
        """Open the store of the rendezvous; its port."""
        self._store = _store(0, self._workers, is_master=True)
        return str(self._store.port)

    def join(self, token: str) -> None:
        """Make the process group."""
        store = self._store or _store(int(token), self._workers, is_master=False)
        dist.init_process_group(
            self._backend, store=store, rank=self._rank, world_size=self._workers
        )

    def hold(self, sizes: Sequence[int], handles: Sequence[Any]) -> HeldVectors:  # noqa: ARG002
        """Allocate tensors of these sizes."""
        tensors = [torch.zeros(size, dtype=torch.float32, device="cpu") for size in sizes]
        reduce = [partial(dist.all_reduce, tensor) for tensor in tensors]
        vectors = [tensor.numpy() for tensor in tensors]
        return ReducedVectors(self._rank, self._workers, vectors, reduce, dist.barrier)


def _store(port: int, workers: int, is_master: bool) -> Any:
    make: Any = dist.TCPStore  # type: ignore[attr-defined, unused-ignore]
    return make(_HOST, port, workers, is_master=is_master, wait_for_workers=False)


def main(rank: int, workers: int, backend: str, module: str = "") -> None:
    """Serve until the end of input."""
    if module:
        importlib.import_module(module)
    member = TorchMember(rank, workers, backend)
    serve_apart(member.version, Answers(member))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
