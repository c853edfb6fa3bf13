"""The operations that compute, in the words torch calls them by."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.member import Member
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

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Operation:
        """Reduce a tensor over all ranks, for all ranks."""
        if len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        call = _reduced(tensors[0], opts)
        return self.submit("all_reduce", [call], tensors, opts)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Operation:
        """Reduce several tensors."""
        calls = [_reduced(tensor, opts) for tensor in tensors]
        return self.submit("all_reduce", calls, tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any = None) -> Operation:
        """Reduce a tensor over all ranks, for the root."""
        call = *_reduced(tensors[0], opts), opts.rootRank
        return self.submit("reduce", [call], tensors, opts)

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None
    ) -> Operation:
        """Reduce a tensor for each rank over all ranks."""
        calls = []
        for output, given in zip(outputs, inputs, strict=True):
            if len(given) != self._ranks:
                raise CollectiveError(
                    f"reduce_scatter got {len(given)} tensors: expected {self._ranks}, one for "
                    "each rank"
                )
            same_kind([output, *given])
            calls.append((output, [address_of(tensor) for tensor in given]))
        return self._reduce_scatter(calls, inputs, opts)

    def reduce_scatter_single(self, output: Tensor, input_: Tensor, opts: Any = None) -> Operation:
        """Do so with equal parts of one tensor."""
        return self.reduce_scatter_single_coalesced([output], [input_], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> Operation:
        """Do several of them."""
        calls = []
        for output, given in zip(outputs, inputs, strict=True):
            parts = parts_of(given, self._ranks)
            check_bytes(given, parts[0], output, memory_of(output))
            calls.append((output, [address for address, _ in parts]))
        return self._reduce_scatter(calls, inputs, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self, calls: list[tuple[Tensor, list[int]]], inputs: Any, opts: Any
    ) -> Operation:
        prepared = [(sources, *_reduced(output, opts)) for output, sources in calls]
        results = [output for output, _ in calls]
        return self.submit("reduce_scatter", prepared, results, opts, inputs)


def _reduced(tensor: Tensor, opts: Any) -> tuple[int, int, str, int]:
    """Return what a tensor is to `Group`: address, count, kind and operation."""
    address = address_of(tensor)
    return address, *count_and_kind(tensor), operation_for(opts.reduceOp, tensor)
