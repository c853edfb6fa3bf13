"""Lowers a network's layers to the stages of a plan: operator fusion and shared memory.

Fused are:

- convolution or dense + ReLU;
- batch normalisation + activation, or + addition + ReLU;
- convolution + the statistics of a normalisation, and + 2x2 max pooling, where the implementation
  has it.

Branches of a concatenation write straight into their slice of it, where other layers may read them;
one that begins like another contains that. ReLU and dropout work in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

import numpy as np

from knltrain.backends.cpu import stages
from knltrain.backends.cpu.memory import Buffer, Place, Tensor
from knltrain.backends.cpu.stages import Stage
from knltrain.backends.cpu.takers import Takers, is_plain
from knltrain.errors import NetworkError
from knltrain.network import layers
from knltrain.network.layers import IMAGES, Layer, Shape
from knltrain.network.network import Network
from vectorized_ops.epilogue import IDENTITY, RELU
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import Operations

_SINGLE: Final[dict[str, tuple[str, str, Callable[[Any], tuple[object, ...]]]]] = {
    "Activation": ("ActivationStage", "activation", lambda layer: (layer.function,)),
    "Affine": ("AffineStage", "affine", lambda layer: (layer.factor, layer.offset)),
    "ChannelScale": ("ChannelScaleStage", "channel_scale", lambda _: ()),
    "GlobalAveragePooling": ("AveragePoolingStage", "global_average_pooling", lambda _: ()),
    "LayerNormalisation": (
        "LayerNormalisationStage",
        "layer_normalisation",
        lambda layer: (layer.epsilon,),
    ),
    "LocalResponseNormalisation": (
        "LocalResponseNormalisationStage",
        "local_response_normalisation",
        lambda layer: (layer.size, layer.alpha, layer.beta, layer.bias),
    ),
    "PReLU": ("PReLUStage", "parametric_rectifier", lambda _: ()),
    "Padding": ("PaddingStage", "padding", lambda layer: (layer.sides, layer.value)),
    "WithinChannelNormalisation": (
        "LocalResponseNormalisationStage",
        "within_channel_normalisation",
        lambda layer: (layer.size, layer.alpha, layer.beta),
    ),
}
"""Layers that are fused with no other: the stage, and the operation with its arguments.

Names stand for layers and stages here and in `_lower`: those that a network lacks are not imported.
"""


Algorithms: TypeAlias = Mapping[str, Mapping[str, str]]
"""By layer and direction the algorithm that was asked for."""

NO_CHOICE: Final[Algorithms] = {}

DIRECTIONS: Final = ("forward", "backward_data", "backward_weights")


@final
class Lowering:
    """The stages in the order of the layers, and the output tensor of each layer by name.

    Convolutions named in `algorithms` take those, the others what is fastest.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        operations: Operations,
        algorithms: Algorithms = NO_CHOICE,
    ) -> None:
        self._algorithms = algorithms
        self._network, self._batch, self._operations = network, batch, operations
        self._layers = {layer.name: layer for layer in network.layers}
        self._takers = Takers(network)
        self._statistics: dict[Tensor, stages.BatchNormalisationStage] = {}
        self._slices: dict[str, Tensor] = {}
        self._done: set[str] = set()
        self._dropouts = 0
        self.stages: list[Stage] = []
        images = Place(Buffer(IMAGES, (batch, *network.input_shape), operations.kept))
        self.tensors: dict[str, Tensor] = {
            IMAGES: Tensor(IMAGES, network.input_shape, images, None)
        }
        for layer in reversed(network.layers):  # the outer of nested concatenations comes first
            if layer.name in self._takers.branches:
                self._reserve(layer)
        for layer in network.layers:
            if layer.name not in self._done:
                before, known = len(self.stages), set(self._done)
                self._lower(layer)
                if len(self.stages) > before and layer.name not in self._takers.branches:
                    done = self._done - known
                    self.stages[-1].layers = tuple(name for name in self._layers if name in done)
        for output in network.outputs:  # logits are float32 in any precision
            logits = self.tensors[output.layer]
            for place in (logits.values, logits.gradient):
                if place is not None:
                    place.buffer.dtype = np.dtype(np.float32)

    def _lower(self, layer: Layer) -> None:
        lower = {
            "Convolution": self._convolution,
            "Dense": self._dense,
            "BatchNormalisation": self._batch_normalisation,
            "MaxPooling": self._pooling,
            "AveragePooling": self._pooling,
            "AdaptiveAveragePooling": self._pooling,
            "ReLU": self._rectifier,
            "ChannelProduct": self._channel_product,
            "ChannelShuffle": self._channel_selection,
            "ChannelSlice": self._channel_selection,
            "Flatten": self._flatten,
            "Dropout": self._dropout,
            "StochasticDepth": self._dropout,
            "Addition": self._addition,
            "Concatenation": self._concatenation,
        }.get(type(layer).__name__, self._single)
        lower(layer)  # type: ignore[operator]

    def _single(self, layer: Layer) -> None:
        """Make the stage of a layer that is fused with no other one."""
        if type(layer).__name__ not in _SINGLE:
            raise self._unsupported(layer)
        kind, part, arguments = _SINGLE[type(layer).__name__]
        make = getattr(self._operations, part)
        if make is None:
            raise self._unsupported(layer)
        operation, inputs = make(*arguments(layer)), self._input(layer)
        self.stages.append(
            getattr(stages, kind)(
                layer.name, self._operations, operation, inputs, self._output(layer)
            )
        )

    def _convolution(self, layer: layers.Convolution) -> None:
        if self._fuses_pooling(layer) and self._pooled(layer):
            return
        inputs = self._input(layer)
        shape = layer.operation(self._batch, (inputs.shape,))
        asked = self._algorithms.get(layer.name)
        try:
            operation = self._operations.convolution(shape, **({"asked": asked} if asked else {}))
        except OperationError as error:
            raise NetworkError(f"layer '{layer.name}': {error}") from error
        self._weighted(layer, operation, inputs, layer.bias)

    def _fuses_pooling(self, layer: layers.Convolution) -> bool:
        inputs = self._input(layer)
        alone = len(self._takers.of(inputs.name)) == 1 and not inputs.rectified
        has_it = self._operations.pooled_convolution is not None
        return has_it and alone and self._takers.halves_behind(layer) is not None

    def _pooled(self, layer: layers.Convolution) -> bool:
        """Make a stage that pools as well; tell whether it has the algorithm that was asked for."""
        inputs, asked = self._input(layer), self._algorithms.get(layer.name)
        make, shape = self._operations.pooled_convolution, (self._batch, *inputs.shape)
        assert make is not None
        given = shape, layer.filters, layer.window.kernel[0]
        if asked is None:
            operation = make(*given)
        else:
            if len(asked) < len(DIRECTIONS) or len(set(asked.values())) > 1:
                return False  # it has one for all directions
            try:
                operation = make(*given, algorithm=asked["forward"])
            except OperationError:
                return False
        stage = stages.PooledConvolutionStage(
            layer.name,
            self._operations,
            operation,
            inputs,
            self._output(layer, self._takers.halves_behind(layer)),
        )
        self.stages.append(stage)
        return True

    def _dense(self, layer: layers.Dense) -> None:
        inputs = self._input(layer)
        if len(inputs.shape) == 3:
            flat = self._tensor(
                f"{layer.name} inputs", (math.prod(inputs.shape),), inputs.gradient is not None
            )
            self.stages.append(stages.FlattenStage(layer.name, self._operations, inputs, flat))
            inputs = flat
        shape = layer.operation(self._batch, (inputs.shape,))
        operation = self._operations.dense(shape.images, shape.inputs, shape.units)
        self._weighted(layer, operation, inputs, layer.bias)

    def _weighted(self, layer: Layer, operation: Any, inputs: Tensor, bias: bool) -> None:
        relu = self._takers.plain_relu_behind(layer)
        output = self._output(layer, relu)
        output.rectified = relu is not None
        self.stages.append(
            stages.WeightedStage(layer.name, self._operations, operation, inputs, output, bias)
        )

    def _batch_normalisation(self, layer: layers.BatchNormalisation) -> None:
        inputs, addition = self._input(layer), self._addition_behind(layer)
        addend = None if addition is None else self._other_input(addition, layer)
        if addition is None:
            activation, epilogue = self._takers.epilogue_behind(layer)
        else:
            activation = self._takers.plain_relu_behind(addition)
            epilogue = IDENTITY if activation is None else RELU
        output = self._output(layer, addition, activation)
        output.rectified = activation is not None and addend is not None
        alone = self._takers.alone(layer, self._network.inputs_of(layer)[0])
        if addend is None and alone:
            self._share_gradient(inputs, output)
        stage = stages.BatchNormalisationStage(
            layer.name,
            self._operations,
            inputs,
            output,
            layer.epsilon,
            epilogue,
            addend,
            layer.frozen,
        )
        if not layer.frozen:
            stage.take_statistics(self._statistics_of(inputs, alone))
            self._statistics.setdefault(inputs, stage)
        self.stages.append(stage)

    def _statistics_of(self, tensor: Tensor, alone: bool = True) -> list[stages.Statistics]:
        """Return the channels of a tensor in pieces, each with the stage that has its statistics.

        An earlier normalisation has them, or the convolution that makes the piece, for one taker
        `alone`. Moments are those of what a ReLU is given.
        """
        if tensor in self._statistics:
            return [stages.Statistics(tensor, self._statistics[tensor])]
        parts = [self.tensors[name] for name in self._takers.branches.get(tensor.name, ())]
        if parts and all(part.parent is tensor for part in parts):
            return [each for part in parts for each in self._statistics_of(part)]
        found = None
        if alone and not tensor.rectified:
            makers = (stage for stage in self.stages if stage.output is tensor)
            found = next((each for each in makers if isinstance(each, stages.WeightedStage)), None)
        return [stages.Statistics(tensor, found)]

    def _addition_behind(self, layer: layers.BatchNormalisation) -> layers.Addition | None:
        """Return the addition that can be fused into a normalisation.

        The other addend must be computed already. Where the normalisation's inputs need no
        gradient, it is not fused: it would overwrite that of the sum.
        """
        taker = self._takers.sole(layer)
        if not isinstance(taker, layers.Addition) or self._input(layer).gradient is None:
            return None
        return taker if self._other_input(taker, layer) is not None else None

    def _other_input(self, addition: layers.Addition, layer: Layer) -> Tensor | None:
        (name,) = set(self._network.inputs_of(addition)) - {layer.name}
        return self.tensors.get(name)

    def _pooling(
        self, layer: layers.MaxPooling | layers.AveragePooling | layers.AdaptiveAveragePooling
    ) -> None:
        inputs = self._input(layer)
        shape = layer.windows((inputs.shape,))
        output = self._output(layer)
        if isinstance(layer, layers.MaxPooling):
            operation = self._operations.max_pooling(shape)
            stage: Stage = stages.MaxPoolingStage(
                layer.name, self._operations, operation, inputs, output
            )
        else:
            operation = self._operations.average_pooling(shape)
            stage = stages.AveragePoolingStage(
                layer.name, self._operations, operation, inputs, output
            )
        self.stages.append(stage)

    def _rectifier(self, layer: layers.ReLU) -> None:
        inputs = self._input(layer)
        if is_plain(layer) and self._may_overwrite(layer, inputs):
            output = self._in_place(layer, inputs)
            output.rectified = True
            self.stages.append(stages.ReLUStage(layer.name, self._operations, inputs, output))
            return
        operation = self._operations.rectifier(layer.slope, layer.ceiling)
        output = self._output(layer)
        output.fixed = True
        self.stages.append(
            stages.RectifierStage(layer.name, self._operations, operation, inputs, output)
        )

    def _dropout(self, layer: layers.Dropout | layers.StochasticDepth) -> None:
        if self._operations.dropout is None:
            raise self._unsupported(layer)
        per_image, inputs = isinstance(layer, layers.StochasticDepth), self._input(layer)
        operation = self._operations.dropout(layer.rate, per_image)
        in_place = self._may_overwrite(layer, inputs)
        output = self._in_place(layer, inputs) if in_place else self._output(layer)
        self.stages.append(
            stages.DropoutStage(
                layer.name, self._operations, operation, inputs, output, self._dropouts
            )
        )
        self._dropouts += 1

    def _addition(self, layer: layers.Addition) -> None:
        left, right = (self.tensors[name] for name in self._network.inputs_of(layer))
        relu = self._takers.plain_relu_behind(layer)
        output = self._output(layer, relu)
        output.rectified = relu is not None
        self.stages.append(stages.AdditionStage(layer.name, self._operations, left, right, output))

    def _channel_product(self, layer: layers.ChannelProduct) -> None:
        maps, factors = (self.tensors[name] for name in self._network.inputs_of(layer))
        operation, output = self._operations.channel_product(), self._output(layer)
        self.stages.append(
            stages.ChannelProductStage(
                layer.name, self._operations, operation, maps, factors, output
            )
        )

    def _channel_selection(self, layer: layers.ChannelSlice | layers.ChannelShuffle) -> None:
        inputs = self._input(layer)
        shape = layer.operation(self._batch, (inputs.shape,))
        operation, output = self._operations.channel_selection(shape.chosen), self._output(layer)
        self.stages.append(
            stages.ChannelSelectionStage(layer.name, self._operations, operation, inputs, output)
        )

    def _flatten(self, layer: layers.Flatten) -> None:
        inputs, output = self._input(layer), self._output(layer)
        self.stages.append(stages.FlattenStage(layer.name, self._operations, inputs, output))

    def _concatenation(self, layer: layers.Concatenation) -> None:
        whole = self._slices[layer.name]
        self.tensors[layer.name] = whole
        start, branches = 0, []
        for name in self._takers.branches[layer.name]:
            branch = self.tensors[name]
            stop = start + branch.shape[-1]
            if branch.parent is not whole:
                mine = self._slice(f"{layer.name} {name}", whole, start, stop)
                self.stages.append(stages.CopyStage(layer.name, self._operations, branch, mine))
                branch = mine
            branches.append(branch)
            start = stop
        whole.rectified = all(branch.rectified for branch in branches)
        whole.fixed = any(branch.fixed for branch in branches) or any(
            len(self._takers.of(name)) > 1 for name in self._takers.branches[layer.name]
        )
        self._done.add(layer.name)

    def _reserve(self, layer: Layer) -> None:
        """Make the memory of a concatenation, and give eligible branches their slice of it."""
        whole = self._slices[layer.name] = self._memory_of(layer.name)
        start = 0
        for name in self._takers.branches[layer.name]:
            stop = start + self._network.shape_of(name)[-1]
            if self._takers.may_be_part(name, layer):
                self._slices[name] = self._slice(name, whole, start, stop)
            start = stop

    def _slice(self, name: str, whole: Tensor, start: int, stop: int) -> Tensor:
        gradient = None if whole.gradient is None else whole.gradient.part(start, stop)
        if name in self._layers and not self._network.needs_gradient(name):
            gradient = None
        shape = (*whole.shape[:-1], stop - start)
        part = Tensor(name, shape, whole.values.part(start, stop), gradient)
        part.parent = whole
        return part

    def _input(self, layer: Layer) -> Tensor:
        return self.tensors[self._network.inputs_of(layer)[0]]

    def _output(self, layer: Layer, *behind: Layer | None) -> Tensor:
        """Make the output of a stage that fuses `layer` with those `behind` it."""
        done = [layer, *(each for each in behind if each is not None)]
        output = self._memory_of(done[-1].name)
        for each in done:
            self._done.add(each.name)
            self.tensors[each.name] = output
        return output

    def _memory_of(self, name: str) -> Tensor:
        """Return a layer's output tensor: its slice of a concatenation, or a new one."""
        return self._slices.get(name) or self._tensor(
            name, self._network.shape_of(name), self._network.needs_gradient(name)
        )

    def _in_place(self, layer: Layer, inputs: Tensor) -> Tensor:
        """Make an output in the memory of the inputs; if there is a slice, both are in it."""
        reserved = self._slices.get(layer.name)
        if reserved is not None:
            inputs.values.move_into(reserved.values)
            self._share_gradient(inputs, reserved)
        output = reserved or Tensor(layer.name, inputs.shape, inputs.values, inputs.gradient)
        self._done.add(layer.name)
        self.tensors[layer.name] = output
        return output

    def _tensor(self, name: str, shape: Shape, needs_gradient: bool) -> Tensor:
        shapes, kept = (self._batch, *shape), self._operations.kept
        gradient = Place(Buffer(f"{name} gradient", shapes, kept)) if needs_gradient else None
        return Tensor(name, shape, Place(Buffer(name, shapes, kept)), gradient)

    def _share_gradient(self, inputs: Tensor, output: Tensor) -> None:
        """Let the gradient of the inputs overwrite that of the output."""
        if inputs.gradient is not None and output.gradient is not None:
            inputs.gradient.move_into(output.gradient)

    def _may_overwrite(self, layer: Layer, inputs: Tensor) -> bool:
        """Tell whether `layer` alone reads the values of its inputs."""
        (name,) = self._network.inputs_of(layer)
        return self._takers.alone(layer, name) and not inputs.fixed

    def _unsupported(self, layer: Layer) -> NetworkError:
        return NetworkError(
            f"layer '{layer.name}' is a {type(layer).__name__}, which the cpu backend's "
            f"'{self._operations.name}' does not compute: choose backend.implementation = "
            '"numba" or backend.name = "torch"'
        )
