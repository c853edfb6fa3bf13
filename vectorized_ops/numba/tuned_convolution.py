"""Convolution by the algorithm that is fastest for the shape, chosen for each direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    IMAGE_LANES,
    STORED,
    AnyArray,
    aligned_zeros,
    padded_images,
    zeros_images_last,
)
from vectorized_ops.numba.channel_sums import depthwise_takes
from vectorized_ops.numba.compiling.autotuning import Choice, chosen
from vectorized_ops.numba.compiling.compiler import target_has_amx, target_sums_pairs_faster
from vectorized_ops.numba.compiling.sources import digest_of_imports
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.grouped_winograd import is_square
from vectorized_ops.numba.moments import Moments
from vectorized_ops.numba.strassen_convolution import StrassenConvolution, strassen_takes
from vectorized_ops.numba.winograd_convolution import (
    WinogradConvolution,
    multiplies_pairs,
)
from vectorized_ops.shapes import ConvolutionShape

ALGORITHMS = ("direct", "winograd2", "winograd4", "strassen", "amx")
"""Direct summation and, where they take the shape, Winograd's F(2x2, r x r) and F(4x4, r x r),
Strassen's algorithm for 1x1, and direct summation by AMX's tiles of bfloat16."""

DIRECTIONS = ("forward", "backward_data", "backward_weights")

_ROUNDED = " in bfloat16"

TRANSFORM, WEIGHT = 6.0, 30.0
"""What is expected of a float that is transformed, and of a weight that is, in multiplications.

Measured on two cores of an AMD EPYC (Zen 4).
"""

PAIRED, PAIRED_BESIDE_AMX = 0.5, 2.0
"""The same of a product by AVX512_BF16, and on processors with AMX; see `compiler`."""

AMX_PRODUCT, AMX_PANEL = 1 / 8, 2.5
"""The same of a product by AMX, and of a value of its panels (measured on Zen 4).

On Emerald Rapids a product took between a quarter, with both cores at work, and a fourteenth: what
is expected lies between, and decides only what is measured.
"""

AMX_SHARE = 0.75
"""AMX is expected to take at least this share of the fastest other's time."""


class ChosenConvolution:
    """A convolution that is computed in each direction by one of several operations.

    The fastest is measured with `arguments` when this is made, unless an earlier measurement on
    such a machine is known; `choices` has the results. `made` begins with direct summation; `asked`
    names the operation of a direction, whatever is faster. `told` says of what arrays they are,
    `module` is that of the caller: measurements hold for the sources it imports.
    """

    def __init__(
        self,
        shape: ConvolutionShape,
        made: Mapping[str, Any],
        asked: Mapping[str, str],
        arguments: Arguments,
        told: str,
        module: str,
    ) -> None:
        self.shape = shape
        self.choices = _choose(shape, made, asked, arguments, told, digest_of_imports(module))
        self._by_direction = {way: made[choice.name] for way, choice in self.choices.items()}

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
        moments: Moments | None = None,
    ) -> None:
        """Write the correlation of images and weights, plus bias, cut off at zero with `relu`.

        `moments` are given those of the results before they are cut off, if it `gives_moments`.
        """
        extra = {} if moments is None else {"moments": moments}
        self._by_direction["forward"].forward(images, weights, bias, out, relu, **extra)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images, or add it; zero where `mask` is not positive."""
        self._by_direction["backward_data"].backward_data(gradient, weights, out, add, mask)

    def backward_weights(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write the gradients of weights and, unless it is None, of the bias."""
        self._by_direction["backward_weights"].backward_weights(
            images, gradient, weights_out, bias_out
        )

    @property
    def gives_moments(self) -> bool:
        """Whether `forward`, by the algorithm that was chosen, takes `moments`."""
        return hasattr(self._by_direction["forward"], "gives_moments")

    def moments(self, images: int) -> Moments:
        """Make what `forward` gathers the moments of results in, if it `gives_moments`."""
        made: Moments = self._by_direction["forward"].moments(images)
        return made

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return max(int(operation.scratch_size) for operation in self._by_direction.values())

    def use_scratch(self, memory: AnyArray) -> None:
        """Work in flat float32 `memory` of at least `scratch_size`, aligned to 64 bytes."""
        for operation in self._by_direction.values():
            operation.use_scratch(memory)


class TunedConvolution(ChosenConvolution):
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    The fastest of `algorithms` for each direction is measured when the operation is made, unless an
    earlier measurement on such a machine is known; `choices` has the results. With ("direct",)
    nothing is measured, and results do not depend on the machine's speed. `asked` names the
    algorithm of a direction, whatever is faster. `kept` is the type of activations; AMX is used
    where that is bfloat16 and the processor has it, or, if it was asked for and this `emulates`
    what processors lack, in float32 to the same bits.

    A NaN or infinity affects the outputs that it contributes to. By Winograd's algorithms it
    affects all of their tile; by Strassen's two pixels and, in weights, also the filter, or
    channel, half of all away; by AMX an infinite weight also outputs where it lies outside, unless
    a group's channels (backward its filters) fill tiles of 32.
    """

    def __init__(
        self,
        shape: ConvolutionShape,
        algorithms: tuple[str, ...] = ALGORITHMS,
        asked: Mapping[str, str] | None = None,
        kept: npt.DTypeLike = np.float32,
        emulates: bool = False,
    ) -> None:
        check_algorithms(algorithms, ALGORITHMS)
        made: dict[str, Any] = {"direct": _direct(shape, kept)}
        for name in algorithms:
            if name.startswith("winograd") and is_square(shape):
                made[name] = WinogradConvolution(shape, int(name[-1]))
            elif name == "strassen" and strassen_takes(shape) and kept == np.float32:
                made[name] = StrassenConvolution(shape)
            elif name == "amx" and kept == STORED:
                made |= _amx(shape, asked or {}, emulates)
        told = _ROUNDED if kept == STORED else ""
        arguments = Arguments(shape, partial(_zeros, kept))
        super().__init__(shape, made, asked or {}, arguments, told, __name__)


def check_algorithms(algorithms: Sequence[str], known: Sequence[str]) -> None:
    """Raise OperationError unless all are `known`, whose first, direct summation, is among them."""
    if set(algorithms) - set(known) or known[0] not in algorithms:
        raise OperationError(
            f"convolution algorithms {algorithms} were asked for: expected '{known[0]}' and any of "
            f"{', '.join(known[1:])}"
        )


def _direct(shape: ConvolutionShape, kept: npt.DTypeLike) -> Any:
    if not depthwise_takes(shape):
        return Convolution(shape, kept)
    from vectorized_ops.numba.depthwise_convolution import DepthwiseConvolution

    return DepthwiseConvolution(shape)


def _amx(shape: ConvolutionShape, asked: Mapping[str, str], emulates: bool) -> dict[str, Any]:
    """The convolution by AMX, if the processor has it, or it is asked for and may be emulated."""
    native = amx_missing() is None
    if not native and not (emulates and "amx" in asked.values()):
        return {}
    from vectorized_ops.numba.amx_convolution import AmxConvolution, amx_takes

    return {"amx": AmxConvolution(shape, native)} if amx_takes(shape) else {}


def amx_missing() -> str | None:
    """The reason why this process has no AMX; None if it has."""
    if not target_has_amx():
        return "this processor has no AMX (amx_tile, amx_bf16)"
    from vectorized_ops.numba.amx_permission import amx_refusal

    refusal = amx_refusal()
    return None if refusal is None else f"AMX is refused: {refusal}"


def _choose(
    shape: ConvolutionShape,
    made: Mapping[str, Any],
    asked: Mapping[str, str],
    arguments: Arguments,
    told: str,
    made_by: str,
) -> dict[str, Choice]:
    if len(made) == 1:
        asked = {**dict.fromkeys(DIRECTIONS, "direct"), **asked}
    rounded, choices = told == _ROUNDED, {}
    for direction in DIRECTIONS:
        if (name := asked.get(direction)) is not None:
            choices[direction] = _checked(shape, made, direction, name, told)
            continue
        candidates = {
            name: partial(arguments.run, direction, operation)
            for name, operation in made.items()
            if hasattr(operation, direction) and not (name == "amx" and amx_missing())
        }
        question = f"{direction} {shape!r}{told}"
        product = pair_cost() if rounded and _has_pairs(shape, direction) else 1.0
        expected = {name: _cost(shape, name, direction, product) for name in candidates}
        choices[direction] = chosen(question, candidates, cautious(expected), made_by)
    for operation in made.values():  # what they measured with, for those of a whole network
        operation.use_scratch(aligned_zeros((0,)))
    return choices


def _checked(
    shape: ConvolutionShape, made: Mapping[str, Any], direction: str, name: str, told: str
) -> Choice:
    able = [each for each, operation in made.items() if hasattr(operation, direction)]
    if name not in able:
        reason = f" ({_why_not_amx(shape, told == _ROUNDED)})" if name == "amx" else ""
        raise OperationError(
            f"algorithm '{name}' was asked for {direction} of a convolution {shape}{told}: "
            f"expected {' or '.join(repr(each) for each in able)}, which compute it, or 'auto'"
            f"{reason}"
        )
    return Choice(name, {})


def _why_not_amx(shape: ConvolutionShape, rounded: bool) -> str:
    if not rounded:
        return "AMX multiplies bfloat16: choose that precision, as by backend.precision"
    from vectorized_ops.numba.amx_convolution import amx_takes

    if not amx_takes(shape):
        return "AMX takes groups of at least 16 channels and filters, or a single one"
    if (missing := amx_missing()) is None:
        return "it is not among the algorithms that may be chosen from"
    return f"{missing}; backend.emulate_bfloat16 = true computes its results without it"


def pair_cost() -> float:
    """Return what is expected of a product by AVX512_BF16 here, in multiplications of float32."""
    return PAIRED if target_sums_pairs_faster() else PAIRED_BESIDE_AMX


def _has_pairs(shape: ConvolutionShape, direction: str) -> bool:
    """Whether there are pairs of what a direction sums over: channels, filters or vectors."""
    if direction == "backward_weights":
        return padded_images(shape.images) % (2 * IMAGE_LANES) == 0
    summed = shape.channels if direction == "forward" else shape.filters
    return summed // shape.groups % 2 == 0


def _cost(shape: ConvolutionShape, algorithm: str, direction: str, product: float = 1.0) -> float:
    """Return about how long an algorithm takes for an image, in multiplications.

    One takes `product` where its operands may be rounded to bfloat16. Lavin and Gray, arXiv
    1509.09308, section 5, count alike.
    """
    pairs = shape.channels * shape.filters / shape.groups
    channels = shape.channels + shape.filters
    size = shape.inputs[1:3] if direction == "backward_data" else shape.outputs[1:3]
    if not algorithm.startswith("winograd"):
        results, taps = shape.lines * shape.pixels, shape.kernel[0] * shape.kernel[1]
        products = pairs * results * taps
        if algorithm == "amx":
            from vectorized_ops.numba.kernels.convolution.amx import are_whole_tiles

            copied = {"forward": shape.channels * taps, "backward_data": shape.filters * taps}
            computed = float(results)
            if direction == "backward_data" and not are_whole_tiles(shape.filters // shape.groups):
                # All taps of each pixel that any of them reaches.
                height, width = (
                    side * min(1.0, window / step)
                    for side, window, step in zip(size, shape.kernel, shape.stride, strict=True)
                )
                computed = height * width
            panels = computed * copied.get(direction, shape.filters)
            return AMX_PRODUCT * pairs * computed * taps + AMX_PANEL * panels
        sums = TRANSFORM * results * channels / 2
        return products * 7 / 8 + sums if algorithm == "strassen" else products * product
    outputs, taps = int(algorithm[-1]), shape.kernel[0]
    if multiplies_pairs(outputs, taps):
        pairs *= product
    points = math.prod(side + -(-side // outputs) * (taps - 1) for side in size)
    weights = (outputs + taps - 1) ** 2 * WEIGHT / shape.images
    return points * (pairs + TRANSFORM * channels) + weights * pairs


def cautious(expected: dict[str, float]) -> dict[str, float]:
    """Return what is expected, but of AMX no more than lets it be measured against another."""
    others = [cost for name, cost in expected.items() if name != "amx"]
    return {
        name: max(cost, AMX_SHARE * min(others)) if name == "amx" else cost
        for name, cost in expected.items()
    }


@final
class Arguments:
    """Arrays to measure on, made by `zeros` of a shape when the first measurement needs them."""

    def __init__(
        self, shape: ConvolutionShape, zeros: Callable[[tuple[int, ...]], AnyArray]
    ) -> None:
        self._shape, self._zeros = shape, zeros

    def run(self, direction: str, operation: Any) -> None:
        """Compute one direction."""
        if direction == "forward":
            operation.forward(self._images, self._weights, None, self._gradient)
        elif direction == "backward_data":
            operation.backward_data(self._gradient, self._weights, self._images)
        else:
            operation.backward_weights(self._images, self._gradient, self._weights, None)

    @cached_property
    def _images(self) -> AnyArray:
        return self._zeros(self._shape.inputs)

    @cached_property
    def _gradient(self) -> AnyArray:
        return self._zeros(self._shape.outputs)

    @cached_property
    def _weights(self) -> AnyArray:
        return np.zeros(self._shape.weights, np.float32)


def _zeros(kept: npt.DTypeLike, shape: tuple[int, ...]) -> AnyArray:
    return zeros_images_last((padded_images(shape[0]), *shape[1:]), np.dtype(kept))
