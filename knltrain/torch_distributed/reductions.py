"""The collective operations that reduce, by torch's method names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import (
    AllreduceCoalescedOptions,
    AllreduceOptions,
    ReduceOptions,
    ReduceScatterOptions,
)

from knltrain.communication.collectives import Collectives
from knltrain.torch_distributed.forms import takes
from knltrain.torch_distributed.member import Member
from knltrain.torch_distributed.sparse import check_sparse, reduce_sparse
from knltrain.torch_distributed.staging import Staging
from knltrain.torch_distributed.tensors import (
    address_of,
    check_bytes,
    count_and_kind,
    memory_of,
    operation_for,
    parts_of,
    same_kind,
)
from knltrain.torch_distributed.work import Operation


class Reductions(Member):
    """All-reduce, reduce and reduce-scatter."""

    @takes(
        AllreduceOptions,
        "tensors[] opts",
        "tensors[] op timeout",
        "tensor[0] op timeout",
    )
    def allreduce(self, tensors: list[Tensor], opts: Any) -> Operation:
        """Reduce a tensor over all ranks, for all ranks."""
        if any(tensor.layout is torch.sparse_coo for tensor in tensors):
            return self._all_reduce_sparse(tensors, opts)
        return self._all_reduce(tensors, opts)

    @takes(AllreduceCoalescedOptions, "tensors[] opts")
    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> Operation:
        """Reduce several tensors."""
        return self._all_reduce(tensors, opts)

    @takes(ReduceOptions, "tensors[] opts", "tensor[0] root op timeout")
    def reduce(self, tensors: list[Tensor], opts: Any) -> Operation:
        """Reduce a tensor over all ranks, for the root."""
        staging, root = Staging(), self.root_of(opts)
        is_root = self._rank == root
        used = [staging.written(each) if is_root else staging.read(each) for each in tensors]
        calls = [(*_reduced(tensor, opts), root) for tensor in used]
        return self.submit("reduce", calls, tensors, opts, staging=staging)

    @takes(
        ReduceScatterOptions,
        "output_tensors[] input_tensors[][] opts",
        "output[0] input[] op timeout",
    )
    def reduce_scatter(
        self, outputs: list[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any
    ) -> Operation:
        """Reduce a tensor for each rank over all ranks."""
        if len(outputs) == 1 and len({tensor.numel() for tensor in inputs[0]}) > 1:
            return self._reduce_scatter_unequal(outputs[0], inputs[0], opts)
        staging, calls = Staging(), []
        for output, given in zip(outputs, inputs, strict=True):
            self.check_number(given)
            same_kind([output, *given])
            addresses = [address_of(tensor) for tensor in staging.all_read(given)]
            calls.append((addresses, *_reduced(staging.written(output), opts)))
        return self.submit("reduce_scatter", calls, outputs, opts, inputs, staging)

    @takes(ReduceScatterOptions, "outputTensor[0] inputTensor[0] opts")
    def reduce_scatter_single(self, output: Tensor, input_: Tensor, opts: Any) -> Operation:
        """Do so with equal parts of one tensor."""
        return self._reduce_scatter_singles([output], [input_], opts)

    @takes(ReduceScatterOptions, "outputs[] inputs[] opts")
    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any
    ) -> Operation:
        """Do several of them."""
        return self._reduce_scatter_singles(outputs, inputs, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _all_reduce(self, tensors: list[Tensor], opts: Any) -> Operation:
        staging = Staging()
        calls = [_reduced(staging.written(tensor), opts) for tensor in tensors]
        return self.submit("all_reduce", calls, tensors, opts, staging=staging)

    def _all_reduce_sparse(self, tensors: list[Tensor], opts: Any) -> Operation:
        for tensor in tensors:
            check_sparse(tensor, opts.reduceOp)

        def steps(collectives: Collectives, limit: float) -> None:
            for tensor in tensors:
                reduce_sparse(collectives, tensor, limit)

        return self.perform("sparse_all_reduce", steps, tensors, opts, tensors)

    def _reduce_scatter_singles(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any
    ) -> Operation:
        staging, calls = Staging(), []
        for output, given in zip(outputs, inputs, strict=True):
            used = staging.written(output)
            parts = parts_of(staging.read(given), self._ranks)
            check_bytes(given, parts[0], output, memory_of(used))
            calls.append(([address for address, _ in parts], *_reduced(used, opts)))
        return self.submit("reduce_scatter", calls, outputs, opts, inputs, staging)

    def _reduce_scatter_unequal(
        self, output: Tensor, given: Sequence[Tensor], opts: Any
    ) -> Operation:
        """Reduce tensors of as many sizes as there are ranks, one after the other."""
        self.check_number(given)
        same_kind([output, given[self._rank]])
        staging = Staging()
        target = staging.written(output)
        parts = staging.all_read(given)
        own = parts[self._rank]
        parts[self._rank] = target
        calls = [(*_reduced(part, opts), root) for root, part in enumerate(parts)]

        def steps(collectives: Collectives, limit: float) -> None:
            staging.fill()
            target.view(-1).copy_(own.view(-1))
            for call in calls:
                collectives.reduce(*call, limit)
            staging.give_back()

        return self.perform("reduce_scatter", steps, [output], opts, given)


def _reduced(tensor: Tensor, opts: Any) -> tuple[int, int, str, int]:
    """Return what a tensor is to `Group`: address, count, kind and operation."""
    address = address_of(tensor)
    return address, *count_and_kind(tensor), operation_for(opts.reduceOp, tensor)
