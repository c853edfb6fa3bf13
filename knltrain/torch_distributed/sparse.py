"""Sums of sparse tensors over all ranks, as of the gradients of sparse embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from knltrain.communication.collectives import Collectives
from knltrain.errors import CollectiveError
from knltrain.torch_distributed.tensors import memories_of, memory_of


def check_sparse(tensor: Tensor, reduce_op: Any) -> None:
    """Raise CollectiveError unless a tensor is sparse, as the others, and is to be summed."""
    if not tensor.is_cpu or tensor.layout is not torch.sparse_coo:
        raise CollectiveError(
            f"got sparse tensors and one with layout {tensor.layout} on {tensor.device}: expected "
            "those of one all_reduce to be alike, on the CPU"
        )
    if getattr(reduce_op, "op", reduce_op) != ReduceOp.SUM:
        name = str(getattr(reduce_op, "op", reduce_op)).rpartition(".")[2]
        raise CollectiveError(f"there is no {name} of sparse tensors: expected SUM")


def reduce_sparse(collectives: Collectives, tensor: Tensor, limit: float) -> None:
    """Replace a sparse tensor by the sum of those of all ranks, coalesced.

    Raises CollectiveError unless all ranks have tensors of one shape, at every rank.
    """
    with torch.inference_mode(False), torch.no_grad():
        own = tensor.detach().coalesce()
        shape = _numbers(own.sparse_dim(), *own.shape)
        counts = _gathered(collectives, _numbers(len(shape), own._nnz()), limit)
        shapes = _shapes(collectives, shape, [int(dims) for dims, _ in counts], limit)
        if any(other != shapes[0] for other in shapes):
            raise CollectiveError(
                f"the ranks have sparse tensors of shapes {[each[1:] for each in shapes]}, "
                f"{[each[0] for each in shapes]} dimensions of which are sparse: expected one shape"
            )
        entries = [int(number) for _, number in counts]
        indices = [own._indices().new_empty(own.sparse_dim(), count) for count in entries]
        values = [own._values().new_empty(count, *own._values().shape[1:]) for count in entries]
        _gather(collectives, own._indices().contiguous(), indices, limit)
        _gather(collectives, own._values().contiguous(), values, limit)
        total = torch.sparse_coo_tensor(
            torch.cat(indices, 1),
            torch.cat(values),
            own.shape,
            dtype=own.dtype,
            device=own.device,
        )
        tensor.copy_(total.coalesce())


def _numbers(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device="cpu")


def _gathered(collectives: Collectives, own: Tensor, limit: float) -> list[Tensor]:
    found = [torch.empty_like(own) for _ in range(collectives.ranks)]
    _gather(collectives, own, found, limit)
    return found


def _shapes(
    collectives: Collectives, own: Tensor, lengths: list[int], limit: float
) -> list[list[int]]:
    found = [own.new_empty(length) for length in lengths]
    _gather(collectives, own, found, limit)
    return [each.tolist() for each in found]


def _gather(collectives: Collectives, own: Tensor, found: list[Tensor], limit: float) -> None:
    collectives.all_gather(memory_of(own), memories_of(found), limit)
