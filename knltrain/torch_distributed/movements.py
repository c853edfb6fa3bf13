"""The collective operations that only copy tensors, by torch's method names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ScatterOptions,
)

from knltrain.communication.collectives.operations import Memory
from knltrain.errors import CollectiveError
from knltrain.torch_distributed.forms import takes
from knltrain.torch_distributed.member import Member
from knltrain.torch_distributed.staging import Staging
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

    @takes(BroadcastOptions, "tensors[] opts", "tensor[0] root timeout")
    def broadcast(self, tensors: list[Tensor], opts: Any) -> Operation:
        """Copy the tensors of a root to all."""
        staging, root = Staging(), self.root_of(opts)
        memories = memories_of(staging.all_written(tensors))
        calls = [(memory, root) for memory in memories]
        return self.submit("broadcast", calls, tensors, opts, staging=staging)

    @takes(
        AllgatherOptions,
        "output_tensors[][] input_tensors[] opts",
        "output_tensors[] input_tensor[0] timeout",
    )
    def allgather(
        self, outputs: Sequence[Sequence[Tensor]], inputs: list[Tensor], opts: Any
    ) -> Operation:
        """Collect a tensor of every rank, at every rank."""
        staging, pairs = Staging(), []
        for wanted, given in zip(outputs, inputs, strict=True):
            self.check_number(wanted)
            same_kind([wanted[self._rank], given])
            source = memory_of(staging.read(given))
            pairs.append((source, memories_of(staging.all_written(wanted))))
        results = [tensor for wanted in outputs for tensor in wanted]
        return self.submit("all_gather", pairs, results, opts, inputs, staging)

    @takes(AllgatherOptions, "output_lists[][] input_list[] opts")
    def allgather_coalesced(
        self, outputs: Sequence[Sequence[Tensor]], inputs: list[Tensor], opts: Any
    ) -> Operation:
        """Do several of them; ``outputs`` are by rank, as torch has it here."""
        by_input = [list(tensors) for tensors in zip(*outputs, strict=True)]
        return self.allgather(by_input, inputs, opts)

    @takes(AllgatherOptions, "output[0] input[0] opts")
    def all_gather_single(self, output: Tensor, input_: Tensor, opts: Any) -> Operation:
        """Collect a tensor of every rank in one that is P times as large."""
        return self._all_gather_singles([output], [input_], opts)

    @takes(AllgatherOptions, "outputs[] inputs[] opts")
    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any
    ) -> Operation:
        """Do several of them."""
        return self._all_gather_singles(outputs, inputs, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @takes(
        GatherOptions,
        "output_tensors[][] input_tensors[] opts",
        "output_tensors[] input_tensor[0] root timeout",
    )
    def gather(
        self, outputs: Sequence[Sequence[Tensor]], inputs: list[Tensor], opts: Any
    ) -> Operation:
        """Collect a tensor of every rank at the root."""
        staging, root = Staging(), self.root_of(opts)
        memory = memory_of(staging.read(inputs[0]))
        wanted = list(outputs[0]) if self._rank == root else []
        if self._rank == root:
            self.check_number(wanted)
            same_kind([inputs[0], *wanted])
        targets = memories_of(staging.all_written(wanted))
        return self.submit("gather", [(memory, targets, root)], wanted, opts, inputs, staging)

    @takes(
        ScatterOptions,
        "output_tensors[] input_tensors[][] opts",
        "output_tensor[0] input_tensors[] root timeout",
    )
    def scatter(
        self, outputs: list[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any
    ) -> Operation:
        """Give every rank one of the root's tensors."""
        staging, root = Staging(), self.root_of(opts)
        memory = memory_of(staging.written(outputs[0]))
        given = list(inputs[0]) if self._rank == root else []
        if self._rank == root:
            self.check_number(given)
            same_kind([outputs[0], *given])
        sources = memories_of(staging.all_read(given))
        return self.submit("scatter", [(sources, memory, root)], outputs, opts, given, staging)

    @takes(AllToAllOptions, "output_tensors[] input_tensors[] opts")
    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Operation:
        """Give every rank one of this rank's tensors, and get one of each."""
        staging = Staging()
        self.check_number(outputs)
        self.check_number(inputs)
        sources = memories_of(staging.all_read(inputs))
        targets = memories_of(staging.all_written(outputs))
        return self.submit("all_to_all", [(sources, targets)], outputs, opts, inputs, staging)

    @takes(
        AllToAllOptions,
        "output[0] input[0] output_split_sizes input_split_sizes opts",
        "output[0] input[0] output_split_sizes input_split_sizes timeout",
    )
    def all_to_all_single(
        self,
        output: Tensor,
        input_: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any,
    ) -> Operation:
        """Do so with parts of one tensor, equal ones or of so many rows each."""
        staging = Staging()
        sources = split_memory(staging.read(input_), input_split_sizes, self._ranks)
        targets = split_memory(staging.written(output), output_split_sizes, self._ranks)
        calls = [(sources, targets)]
        return self.submit("all_to_all", calls, [output], opts, [input_], staging)

    alltoall_base = all_to_all_single

    @takes(BarrierOptions, "opts", "timeout")
    def barrier(self, opts: Any) -> Operation:
        """Wait until all ranks are here."""
        return self.submit("barrier", [()], [], opts)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:  # noqa: ARG002
        """Refuse: torch has it for gloo alone."""
        raise CollectiveError(
            f"'{self._backend}' has no monitored_barrier, which torch has for gloo alone: call "
            "barrier(), whose errors name the rank that does not come"
        )

    def _all_gather_singles(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any
    ) -> Operation:
        staging, pairs = Staging(), list[tuple[Memory, list[Memory]]]()
        for output, given in zip(outputs, inputs, strict=True):
            whole = parts_of(staging.written(output), self._ranks)
            memory = memory_of(staging.read(given))
            check_bytes(output, whole[0], given, memory)
            pairs.append((memory, whole))
        return self.submit("all_gather", pairs, outputs, opts, inputs, staging)
