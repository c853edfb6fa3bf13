"""A network: a graph of layers with inferred shapes, its parameters placed in one packed vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from knltrain.errors import NetworkError
from knltrain.network.graph import (
    Output,
    ancestors,
    behind_parameters,
    check_names,
    checked_outputs,
    resolved_inputs,
)
from knltrain.network.layers import IMAGES, Layer, ParameterSpec, Shape
from knltrain.network.parameter_groups import (
    ParameterGroup,
    ParameterSetting,
    adjusted,
    parameter_groups_of,
)
from vectorized_ops.shapes import OperationShape

ALIGNMENT_FLOATS = 16  # 64 bytes: one cache line, one AVX-512 register


@dataclass(frozen=True, slots=True)
class Network:
    """Layers behind an input of shape (H, W, C), each of which takes the outputs of earlier ones.

    `outputs` are the layers whose losses are summed in training, each with its weight; evaluation
    uses the first alone. By default it is the last layer. `shapes[0]` is the input shape and
    `shapes[i + 1]` that of the output of `layers[i]`. `parameters` holds all parameters in layer
    order, weights first, each at an offset that is a multiple of 16 values (64 bytes), adjusted by
    `settings`, which a description of the network does not contain. Raises NetworkError when layers
    do not fit together, or settings do not fit them.
    """

    name: str
    input_shape: tuple[int, int, int]
    layers: tuple[Layer, ...]
    outputs: tuple[Output, ...] = ()
    settings: tuple[ParameterSetting, ...] = ()
    shapes: tuple[Shape, ...] = field(init=False)
    parameters: tuple[ParameterSpec, ...] = field(init=False)
    _inputs: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _shape_by_name: Mapping[str, Shape] = field(init=False, repr=False, compare=False)
    _with_gradient: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_names(self.name, self.layers)
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise NetworkError(
                f"input shape {self.input_shape} of network '{self.name}': expected "
                "(height, width, channels), each at least 1"
            )
        inputs = resolved_inputs(self.name, self.layers)
        shapes: dict[str, Shape] = {IMAGES: self.input_shape}
        for layer in self.layers:
            taken = tuple(shapes[name] for name in inputs[layer.name])
            shapes[layer.name] = layer.output_shape(taken)
        self._set("_inputs", inputs)
        self._set("_shape_by_name", shapes)
        self._set("outputs", checked_outputs(self.name, self.outputs, inputs, shapes))
        self._set("shapes", tuple(shapes.values()))
        placed = _placed([(each, self.input_shapes(each)) for each in self.layers])
        self._set("parameters", adjusted(self.name, placed, self.settings))
        self._set("_with_gradient", self._layers_with_gradient(inputs))

    def _set(self, key: str, value: object) -> None:
        object.__setattr__(self, key, value)

    def _layers_with_gradient(self, inputs: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
        trained = behind_parameters(
            inputs, [each for each in self.parameters if not each.is_frozen]
        )
        losses = {output.layer for output in self.outputs}
        return trained | losses & behind_parameters(inputs, self.parameters)

    def inputs_of(self, layer: Layer) -> tuple[str, ...]:
        """Names of the layers whose outputs it takes, or "images"."""
        return self._inputs[layer.name]

    def input_shapes(self, layer: Layer) -> tuple[Shape, ...]:
        """Shapes of the inputs of a layer, in their order."""
        return tuple(self._shape_by_name[name] for name in self._inputs[layer.name])

    def shape_of(self, name: str) -> Shape:
        """Shape of a layer's output by the layer's name, or of "images"."""
        return self._shape_by_name[name]

    def consumers(self, name: str) -> tuple[str, ...]:
        """Names of the layers that take the output of layer `name`, or "images", in order."""
        return tuple(taker for taker, sources in self._inputs.items() if name in sources)

    def needs_gradient(self, name: str) -> bool:
        """Whether training needs the gradient of the output of layer `name`, or of "images".

        It does if that layer, or any layer before it, has trained parameters that are not frozen.
        Outputs need one even if they are frozen: that of their loss.
        """
        return name in self._with_gradient

    def needed_for(self, outputs: Sequence[Output]) -> tuple[Layer, ...]:
        """The layers that compute `outputs`, in order; for `outputs[:1]` those of evaluation."""
        needed = ancestors([output.layer for output in outputs], self._inputs)
        return tuple(layer for layer in self.layers if layer.name in needed)

    @property
    def output_shape(self) -> Shape:
        """Shape of every output: (classes,) for a classifier."""
        return self._shape_by_name[self.outputs[0].layer]

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters, without the padding between them."""
        return sum(spec.size for spec in self.parameters if not spec.is_statistic)

    @property
    def statistic_count(self) -> int:
        """Number of running statistics, which lie among the parameters but are not trained."""
        return sum(spec.size for spec in self.parameters if spec.is_statistic)

    @property
    def packed_size(self) -> int:
        """Length of the packed vector in float32 values, padding included."""
        if not self.parameters:
            return 0
        last = self.parameters[-1]
        return _rounded_up(last.offset + last.size)

    @property
    def parameter_groups(self) -> tuple[ParameterGroup, ...]:
        """The packed vector in runs of equal multipliers and statistic momentum."""
        return parameter_groups_of(self.parameters, self.packed_size)

    def operation(self, layer: Layer, images: int) -> OperationShape:
        """A layer's operation for so many images, with its cost."""
        return layer.operation(images, self.input_shapes(layer))

    @property
    def flops_per_image(self) -> int:
        """Operations of one image's forward pass through all convolutions and dense layers."""
        return sum(self.flops_of(layer) for layer in self.layers)

    @property
    def training_flops_per_image(self) -> int:
        """Operations of one image's forward pass and both backward passes."""
        return sum(map(self.training_flops_of, self.layers))

    def training_flops_of(self, layer: Layer) -> int:
        """Operations of a layer of one image.

        It costs its forward operations three times (forward, gradient of its input, gradient of its
        weights), but only twice where its input needs no gradient, and once where its output needs
        none.
        """
        needed = map(self.needs_gradient, (layer.name, self.inputs_of(layer)[0]))
        return self.flops_of(layer) * (1 + sum(needed))

    def flops_of(self, layer: Layer) -> int:
        """Operations of one image's forward pass through a layer."""
        operation = self.operation(layer, 1)
        return operation.costs["forward"].flops if operation.is_product else 0


def _placed(layers: Sequence[tuple[Layer, tuple[Shape, ...]]]) -> tuple[ParameterSpec, ...]:
    placed: list[ParameterSpec] = []
    offset = 0
    for layer, input_shapes in layers:
        for parameter in layer.parameters(input_shapes):
            placed.append(replace(parameter, offset=offset))
            offset = _rounded_up(offset + parameter.size)
    return tuple(placed)


def _rounded_up(offset: int) -> int:
    return -(-offset // ALIGNMENT_FLOATS) * ALIGNMENT_FLOATS
