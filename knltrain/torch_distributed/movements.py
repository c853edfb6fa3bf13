"""The operations that move tensors and compute nothing, in the words torch calls them by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from knltrain.exchange.collectives.operations import Memory
from knltrain.torch_distributed.member import Member
from knltrain.torch_distributed.tensors import (
    check_bytes,
    memories_of,
    memory_of,
    parts_of,
    same_kind,
    split_memory,
)
from knltrain.torch_distributed.work import Operation


class Movements(Member):
    """Broadcast, gather, scatter, all-gather, all-to-all and barrier."""

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Operation:
        """Copy the tensors of a root to all."""
        memories = memories_of(tensors)
        root = opts.rootRank if opts is not None else 0
        return self.submit("broadcast", [(memory, root) for memory in memories], tensors, opts)

    def allgather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> Operation:
        """Collect a tensor of every rank, at every rank."""
        pairs = [
            (memory_of(given), memories_of(wanted))
            for wanted, given in zip(outputs, inputs, strict=True)
        ]
        for wanted, given in zip(outputs, inputs, strict=True):
            same_kind([wanted[self._rank], given])
        results = [tensor for wanted in outputs for tensor in wanted]
        return self.submit("all_gather", pairs, results, opts, inputs)

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> Operation:
        """Do several of them; ``outputs`` are by rank, as torch has it here."""
        by_input = [list(tensors) for tensors in zip(*outputs, strict=True)]
        return self.allgather(by_input, inputs, opts)

    def all_gather_single(self, output: Tensor, input_: Tensor, opts: Any = None) -> Operation:
        """Collect a tensor of every rank in one that is P times as large."""
        return self.all_gather_single_coalesced([output], [input_], opts)

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> Operation:
        """Do several of them."""
        pairs = []
        for output, given in zip(outputs, inputs, strict=True):
            whole, memory = parts_of(output, self._ranks), memory_of(given)
            check_bytes(output, whole[0], given, memory)
            pairs.append((memory, whole))
        return self.submit("all_gather", pairs, outputs, opts, inputs)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> Operation:
        """Collect a tensor of every rank at the root."""
        memory, root = memory_of(inputs[0]), opts.rootRank
        wanted = outputs[0] if self._rank == root else []
        if wanted:
            same_kind([inputs[0], *wanted])
        targets = memories_of(wanted)
        return self.submit("gather", [(memory, targets, root)], wanted, opts, inputs)

    def scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None
    ) -> Operation:
        """Give every rank one of the root's tensors."""
        memory, root = memory_of(outputs[0]), opts.rootRank
        given = inputs[0] if self._rank == root else []
        if given:
            same_kind([outputs[0], *given])
        sources = memories_of(given)
        return self.submit("scatter", [(sources, memory, root)], outputs, opts, given)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Operation:
        """Give every rank one of this rank's tensors, and get one of each."""
        return self._all_to_all(memories_of(inputs), memories_of(outputs), outputs, inputs, opts)

    def all_to_all_single(
        self,
        output: Tensor,
        input_: Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> Operation:
        """Do so with parts of one tensor, equal ones or of so many rows each."""
        sources = split_memory(input_, input_split_sizes, self._ranks)
        targets = split_memory(output, output_split_sizes, self._ranks)
        return self._all_to_all(sources, targets, [output], [input_], opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Operation:
        """Wait until all ranks are here."""
        return self.submit("barrier", [()], [], opts)

    def _all_to_all(
        self,
        sources: Sequence[Memory],
        targets: Sequence[Memory],
        results: list[Tensor],
        inputs: list[Tensor],
        opts: Any,
    ) -> Operation:
        return self.submit("all_to_all", [(sources, targets)], results, opts, inputs)
