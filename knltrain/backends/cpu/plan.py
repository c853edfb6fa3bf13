"""A network compiled once for a batch: the order of operations, and the memory of each.

Moments count the forward stages, then the loss, then the backward stages. They determine the
lifetime of each array, and the lifetimes determine its offset in the plan's one arena.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np

from affinity import allocate_in
from knltrain.backends.cpu.lowering import NO_CHOICE, Algorithms, Lowering
from knltrain.backends.cpu.memory import Buffer, Flow, Lifetime, Place, Tensor, packed
from knltrain.backends.cpu.stages import Stage
from knltrain.errors import NetworkError
from knltrain.network.layers import IMAGES
from knltrain.network.network import Network
from vectorized_ops.implementations import Operations


@final
class Plan:
    """`stages` in order; `input` is read by the first, `outputs` are logits with their weights.

    `evaluation` are the stages that evaluation needs. `arena_bytes` is the memory of all arrays of
    a step, without parameters and their gradient.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        operations: Operations,
        algorithms: Algorithms = NO_CHOICE,
    ) -> None:
        lowered = Lowering(network, batch, operations, algorithms)
        self.stages, self._operations = lowered.stages, operations
        self.input = lowered.tensors[IMAGES]
        self.outputs = [
            (lowered.tensors[output.layer], output.weight) for output in network.outputs
        ]
        for tensor, _ in self.outputs:
            assert tensor.values.buffer.dtype == np.float32  # as the loss reads them
            if len(tensor.shape) != 1 or tensor.gradient is None:
                raise NetworkError(
                    f"network '{network.name}' ends in '{tensor.name}' of shape {tensor.shape}: "
                    "expected a dense layer whose outputs are the classes"
                )
        needed = {layer.name for layer in network.needed_for(network.outputs[:1])}
        self.evaluation = [stage for stage in self.stages if stage.name in needed]
        outputs = [tensor for tensor, _ in self.outputs]
        wire(self.stages, outputs)
        self._places = _places(self.stages, outputs)
        _set_lifetimes(self.stages, outputs)
        self.arena_bytes = self._bind()

    def _bind(self) -> int:
        """Make the arena, and bind places and operations to their parts of it."""
        buffers = list({id(place.buffer): place.buffer for place in self._places}.values())
        scratch_users = [user for stage in self.stages for user in stage.scratch_users]
        scratch = max((4 * user.scratch_size for user in scratch_users), default=0)
        lifetimes = [self._lifetime(buffer) for buffer in buffers]
        lifetimes.append(Lifetime(scratch, 0, 2 * len(self.stages)))
        offsets, size = packed(lifetimes)
        # Reserved, not touched: the first step puts every page where its user is.
        self._arena = allocate_in("model", size).buffer
        memory = np.frombuffer(self._arena, np.uint8)
        pieces = [
            memory[offset : offset + lifetime.size]
            for offset, lifetime in zip(offsets, lifetimes, strict=True)
        ]
        shared = pieces.pop().view(np.float32)
        for buffer, piece in zip(buffers, pieces, strict=True):
            buffer.array = self._operations.activations_in(piece.view(buffer.dtype), buffer.shape)
        for place in self._places:
            place.bind()
        for user in scratch_users:
            user.use_scratch(shared)
        return size

    def _lifetime(self, buffer: Buffer) -> Lifetime:
        size = self._operations.activations_size(buffer.shape) * buffer.dtype.itemsize
        return Lifetime(size, buffer.first, buffer.last)

    def release(self) -> None:
        """Release the arena."""
        self.stages.clear()
        self.evaluation.clear()
        for place in self._places:
            place.buffer.array = None
            place.array = np.empty(0, np.float32)
        self._arena = memoryview(b"")


def wire(stages: list[Stage], outputs: Iterable[Tensor]) -> None:
    """Decide for every share in a gradient whether it is written or added, and which stage masks.

    Of the stages that take a tensor, the last in order comes first in the backward pass and writes;
    the others add. The one that comes last writes zeros where a ReLU cut the values off. What is
    written of a concatenation's gradient is also written of its parts'.
    """
    written = set(outputs)
    final_flows: dict[Tensor, Flow] = {}
    for stage in reversed(stages):
        for flow in stage.flows:
            tensor = flow.tensor
            flow.add = any(whole in written for whole in tensor.wholes)
            if flow.shares and not flow.add:
                _share(stage, tensor)
            written.add(tensor)
            final_flows[tensor] = flow
    for tensor, flow in final_flows.items():
        if tensor.rectified and tensor.gradient is not None:
            flow.mask = flow.can_mask
            tensor.mark_masked(flow.can_mask)


def _share(stage: Stage, addend: Tensor) -> None:
    """Let an addend's gradient share the memory of the sum's, which it equals."""
    if addend.gradient is not None and stage.output.gradient is not None:
        addend.gradient.move_into(stage.output.gradient)


def _places(stages: list[Stage], outputs: list[Tensor]) -> list[Place]:
    found: dict[int, Place] = {}

    def note(*places: Place | None) -> None:
        found.update({id(place): place for place in places if place is not None})

    for stage in stages:
        for tensor in (*stage.read, stage.output):
            note(tensor.values, tensor.gradient)
        note(*stage.remembered)
    for tensor in outputs:
        note(tensor.values, tensor.gradient)
    return list(found.values())


def _set_lifetimes(stages: list[Stage], outputs: list[Tensor]) -> None:
    loss, end = len(stages), 2 * len(stages)
    for tensor in outputs:
        _use(loss, tensor.values, tensor.gradient)
    for moment, stage in enumerate(stages):
        _use(moment, stage.output.values, *(tensor.values for tensor in stage.read))
        _use(moment, *stage.remembered)
        back = end - moment
        if stage.output.gradient is None:
            continue
        _use(back, stage.output.gradient, *stage.remembered)
        _use(back, *(tensor.values for tensor in stage.values_again))
        if stage.output.rectified and not stage.output.masked:
            _use(back, stage.output.values)
        for flow in stage.flows:
            _use(back, flow.tensor.gradient)
            if flow.mask:
                _use(back, flow.tensor.values)


def _use(moment: int, *places: Place | None) -> None:
    for place in places:
        if place is not None:
            place.buffer.use_at(moment)
