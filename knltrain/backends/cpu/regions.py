"""The regions of a plan, with their costs: what stages compute and move by definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import final

from knltrain.backends.cpu.executor import NO_STAGE, BackwardPart, Passes
from knltrain.backends.cpu.stages import Stage
from knltrain.backends.region import BACKWARD, Region, cost_of, kind_of, sum_of
from knltrain.network.network import Network
from vectorized_ops.layout import padded_images
from vectorized_ops.shapes import (
    FLOAT_BYTES,
    Cost,
    DenseShape,
    OperationShape,
)
from vectorized_ops.shapes.execution import executed

_PACKED = "numba", "channels_last"
"""The implementations whose layout and algorithms are counted.

The first pads images, the second in dense layers alone.
"""

_MOVEMENT = "data movement"


def regions_of(
    passes: Passes, network: Network, slices: Sequence[int], implementation: str
) -> list[Region]:
    """The regions in the order of their numbers; costs are those of all slices of a batch."""
    by_size = {
        images: _of_slice(passes, _Costs(network, images, implementation, _value_bytes(passes)))
        for images in set(slices)
    }
    found = [reduce(_added, same) for same in zip(*(by_size[n] for n in slices), strict=True)]
    values = sum(each.size for each in network.parameters)
    for number, region in enumerate(found):
        if region.direction == "sum":
            later = len(slices) - 1
            moved = 3 * FLOAT_BYTES * values * later
            found[number] = replace(
                region, flops=values * later, compulsory_bytes=moved, unfused_bytes=moved
            )
    return found


def _value_bytes(passes: Passes) -> int:
    """Of an activation. Logits, float32 in any precision, are few."""
    return passes.plan.input.values.array.itemsize


def _of_slice(passes: Passes, costs: _Costs) -> list[Region]:
    stages = passes.plan.stages
    backward = [part for parts in passes.backward for part in parts]
    gathering = _gathering(stages)
    return [
        *(costs.without_stage(what, passes) for what in NO_STAGE),
        *(costs.forward(stage, gathering.get(id(stage), ())) for stage in stages),
        *map(costs.backward, backward),
    ]


def _added(some: Region, more: Region) -> Region:
    """Both, one after the other."""
    return replace(
        some,
        flops=some.flops + more.flops,
        product_flops=some.product_flops + more.product_flops,
        executed_flops=_both(some.executed_flops, more.executed_flops),
        compulsory_bytes=some.compulsory_bytes + more.compulsory_bytes,
        layout_bytes=_both(some.layout_bytes, more.layout_bytes),
        unfused_bytes=some.unfused_bytes + more.unfused_bytes,
    )


def _both(some: int | None, more: int | None) -> int | None:
    return None if some is None or more is None else some + more


def _gathering(stages: Sequence[Stage]) -> dict[int, tuple[str, ...]]:
    """By the identity of a stage, the normalisations for which it gathers moments."""
    found: dict[int, tuple[str, ...]] = {}
    for stage in stages:
        for piece in getattr(stage, "pieces", ()):
            if getattr(piece.source, "gathers", False):
                found[id(piece.source)] = (*found.get(id(piece.source), ()), stage.name)
    return found


@final
@dataclass(frozen=True, slots=True)
class _Costs:
    """What stages of a network cost for so many images."""

    network: Network
    images: int
    implementation: str
    value_bytes: int

    def without_stage(self, what: str, passes: Passes) -> Region:
        if what == "load":
            moved = self._bytes(self.network.input_shape)
            moved += moved * FLOAT_BYTES // self.value_bytes
            return self._plain("images", what, _MOVEMENT, Cost(0, moved))
        if what == "loss":
            classes = [output.shape[-1] for output, _ in passes.plan.outputs]
            cost = sum_of(passes.trained.cost(self.images, each) for each in classes)
            return self._plain("loss", what, "loss", cost)
        kind = {"sum": "elementwise", "ready": "exchange"}[what]
        return Region("gradient", what, kind)

    def forward(self, stage: Stage, does_for: tuple[str, ...]) -> Region:
        shapes = self._shapes(stage)
        if not shapes:
            moved = sum(self._bytes(tensor.shape) for tensor in (*stage.read, stage.output))
            return self._plain(stage.name, "forward", _MOVEMENT, Cost(0, moved))
        costs = [self._forward_cost(stage, shape) for shape in shapes]
        others = sum(self._bytes(each.shape) for each in stage.read if each is not stage.inputs)
        fused = costs[0].compulsory_bytes
        if len(shapes) > 1:
            made = self._bytes(self.network.shape_of(stage.layers[0]))
            fused += self._bytes(stage.output.shape) - made + others
            fused += sum(math.prod(place.shape) for place in stage.remembered)
        return self._region(stage, "forward", sum_of(costs), fused, does_for)

    def backward(self, part: BackwardPart) -> Region:
        stage, direction = part.stage, part.direction
        shapes, flows = self._shapes(stage), stage.flows
        values = self._bytes(stage.output.shape)
        if direction == "mask":
            cost = Cost(values // self.value_bytes, 3 * values)
            return self._plain(stage.name, direction, "elementwise", cost)
        also = sum(
            self._bytes(flow.tensor.shape) * (flow.add + flow.mask)
            for flow in flows
            if flow.is_needed and direction != "backward_weights"
        )
        if not shapes:
            return self._plain(stage.name, direction, _MOVEMENT, Cost(0, 2 * values + also))
        parts = _parts_of(stage, direction)
        costs = [self._cost_of(shape, parts) for shape in shapes]
        # A mask is applied where the gradient of the layer behind is made.
        total = sum_of(costs if direction == "backward" else costs[:1])
        return self._region(stage, direction, total, costs[0].compulsory_bytes + also)

    def _region(
        self,
        stage: Stage,
        direction: str,
        total: Cost,
        fused: int,
        does_for: tuple[str, ...] = (),
    ) -> Region:
        main = self._shapes(stage)[0]
        chosen = stage.choices.get(direction, {}).get("algorithm")
        algorithm = None if chosen is None else str(chosen)
        parts = _parts_of(stage, direction)
        plain = self._cost_of(main, parts)
        found = Region(
            stage.name,
            direction,
            kind_of(main),
            stage.layers,
            algorithm,
            does_for,
            flops=total.flops,
            product_flops=plain.flops if main.is_product else 0,
            compulsory_bytes=fused,
            unfused_bytes=total.compulsory_bytes,
        )
        if not self._is_packed:
            return found
        known = [each for each in parts if each in main.costs]
        pads = self._pads or isinstance(main, DenseShape)
        done = {each: executed(main, each, algorithm, self.value_bytes, pads) for each in known}
        flops = sum(each.executed_flops for each in done.values())
        if "backward_weights" in done:
            share = getattr(getattr(stage, "operation", None), "winners_share", 1.0)
            flops -= int((1 - share) * done["backward_weights"].executed_flops)
        besides = Cost(total.flops - plain.flops, fused - plain.compulsory_bytes)
        return replace(
            found,
            executed_flops=flops + self._padded(besides.flops),
            layout_bytes=sum(each.layout_bytes for each in done.values())
            + self._padded(besides.compulsory_bytes),
        )

    def _plain(self, name: str, direction: str, kind: str, cost: Cost) -> Region:
        """What has one algorithm, whose padding alone is executed besides."""
        moved = cost.compulsory_bytes
        return Region(
            name,
            direction,
            kind,
            flops=cost.flops,
            executed_flops=self._padded(cost.flops) if self._is_packed else None,
            compulsory_bytes=moved,
            layout_bytes=self._padded(moved) if self._is_packed else None,
            unfused_bytes=moved,
        )

    def _forward_cost(self, stage: Stage, shape: OperationShape) -> Cost:
        """With the statistics of a batch; their bytes only where no stage has gathered them."""
        cost = shape.costs["forward"].kept_in(self.value_bytes)
        if "statistics" not in shape.costs:
            return cost
        statistics = shape.costs["statistics"].kept_in(self.value_bytes)
        pieces = getattr(stage, "pieces", ())
        are_given = bool(pieces) and all(piece.source is not None for piece in pieces)
        return cost + (Cost(statistics.flops, 0) if are_given else statistics)

    def _shapes(self, stage: Stage) -> list[OperationShape]:
        by_name = {layer.name: layer for layer in self.network.layers}
        return [self.network.operation(by_name[name], self.images) for name in stage.layers]

    def _cost_of(self, shape: OperationShape, directions: Sequence[str]) -> Cost:
        return cost_of(shape, directions).kept_in(self.value_bytes)

    def _bytes(self, shape: Sequence[int]) -> int:
        return self.value_bytes * self.images * math.prod(shape)

    @property
    def _is_packed(self) -> bool:
        return self.implementation in _PACKED

    @property
    def _pads(self) -> bool:
        return self.implementation == _PACKED[0]

    def _padded(self, moved: int) -> int:
        return moved * padded_images(self.images) // self.images if self._pads else moved


def _parts_of(stage: Stage, direction: str) -> tuple[str, ...]:
    """The directions that are computed in one pass."""
    if direction != "backward":
        return (direction,)
    is_needed = any(flow.is_needed for flow in stage.flows) or not stage.flows
    return BACKWARD if is_needed else BACKWARD[1:]
