"""The layers of a network as regions of a step by PyTorch's modules on the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import final

import torch

from knltrain.backends.loss import PLAIN, Loss
from knltrain.backends.region import BACKWARD, Region, cost_of, kind_of, sum_of
from knltrain.clocks import UNOBSERVED, Marks
from knltrain.interchange.to_torch import NetworkModule
from knltrain.network.graph import Output
from knltrain.network.network import Network
from vectorized_ops.shapes import FLOAT_BYTES, Cost, OperationShape

_BEFORE, _LOSS = -1, 0


@final
class MarkedLayers:
    """Runs modules layer by layer, and marks the end of each, forward and backward.

    PyTorch's engine goes backward in the calling thread: when it comes to the output of a layer,
    the layer that it was at is done. What it does for a layer's parameters counts to that one.
    Activations have `value_bytes` each; what autocast rounds on the way is not counted.
    """

    def __init__(
        self, network: Network, images: int, loss: Loss = PLAIN, value_bytes: int = FLOAT_BYTES
    ) -> None:
        self._network, self._value_bytes = network, value_bytes
        layers = network.needed_for(network.outputs)
        names = [layer.name for layer in layers]
        self._forward = {name: number for number, name in enumerate(names, start=1)}
        back = [name for name in reversed(names) if network.needs_gradient(name)]
        first = 1 + len(names)
        self._backward = {name: number for number, name in enumerate(back, start=first)}
        shapes = {layer.name: network.operation(layer, images) for layer in layers}
        classes = [network.shape_of(output.layer)[-1] for output in network.outputs]
        losses = [loss.cost(images, each) for each in classes]
        self.regions = [
            _region("loss", "loss", "loss", (), sum_of(losses)),
            *(self._of_layer(name, "forward", shapes[name]) for name in names),
            *(self._of_layer(name, "backward", shapes[name]) for name in back),
        ]
        self.marks: Marks = UNOBSERVED
        self._running = _BEFORE

    def logits(
        self, module: NetworkModule, images: torch.Tensor, outputs: Sequence[Output]
    ) -> list[torch.Tensor]:
        """As `NetworkModule.logits`."""
        wanted, found = {output.layer for output in outputs}, dict[str, torch.Tensor]()
        hooked = set[object]()
        self.marks.mark(_BEFORE)
        for name, values in module.steps(images, self._network.needed_for(outputs)):
            self.marks.mark(self._forward[name])
            node = values.grad_fn
            if node is not None and name in self._backward and node not in hooked:
                hooked.add(node)
                node.register_prehook(partial(self._begins, self._backward[name]))
            if name in wanted:
                found[name] = values
        return [found[output.layer] for output in outputs]

    def lost(self) -> None:
        """Mark the end of the loss; the way back begins with it."""
        self.marks.mark(_LOSS)
        self._running = _LOSS

    def ended(self) -> None:
        """Mark the end of the last layer on the way back."""
        self.marks.mark(self._running)
        self._running = _BEFORE

    def _begins(self, number: int, _gradients: object) -> None:
        self.marks.mark(self._running)
        self._running = number

    def _of_layer(self, name: str, direction: str, shape: OperationShape) -> Region:
        directions = {"forward": ("forward", "statistics"), "backward": self._needed(name)}
        cost = cost_of(shape, directions[direction]).kept_in(self._value_bytes)
        return _region(name, direction, kind_of(shape), (name,), cost, shape.is_product)

    def _needed(self, name: str) -> tuple[str, ...]:
        (layer,) = (each for each in self._network.layers if each.name == name)
        source = self._network.inputs_of(layer)[0]
        return BACKWARD if self._network.needs_gradient(source) else BACKWARD[1:]


def _region(
    name: str,
    direction: str,
    kind: str,
    layers: tuple[str, ...],
    cost: Cost,
    is_product: bool = False,
) -> Region:
    return Region(
        name,
        direction,
        kind,
        layers,
        flops=cost.flops,
        product_flops=cost.flops if is_product else 0,
        compulsory_bytes=cost.compulsory_bytes,
        unfused_bytes=cost.compulsory_bytes,
    )
