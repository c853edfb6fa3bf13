"""Normalisations: over the images of a batch, over channels, or among neighbouring values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from knltrain.errors import NetworkError
from knltrain.network.layers.layer import Layer, feature_map, only_shape
from knltrain.network.layers.parameter import (
    PLAIN,
    Initial,
    Multipliers,
    ParameterSpec,
    Shape,
    scale_and_shift,
)
from vectorized_ops.shapes import (
    BatchNormalisationShape,
    LayerNormalisationShape,
    LocalResponseShape,
    WithinChannelShape,
)

__all__ = [
    "BatchNormalisation",
    "LayerNormalisation",
    "LocalResponseNormalisation",
    "WithinChannelNormalisation",
]


def _check_epsilon(name: str, epsilon: float) -> None:
    if not 0 < epsilon < math.inf:
        raise NetworkError(f"layer '{name}': epsilon = {epsilon}, expected above 0")


@dataclass(frozen=True, slots=True)
class BatchNormalisation(Layer):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, channel by channel.

    Ioffe and Szegedy, ICML 2015. Training uses mean and (biased) variance of the batch, evaluation
    the running ones. `momentum` is PyTorch's: running = (1 - momentum) running + momentum batch,
    where the running variance follows the unbiased one. With `initial_scale` 0 the branch of a
    residual block starts as zero (Goyal et al., arXiv 1706.02677, section 5.1). With multipliers of
    0 scale and shift stay as they are. A `frozen` one uses the running statistics in training, too,
    and they do not move.
    """

    name: str
    epsilon: float = 1e-5
    momentum: float = 0.1
    initial_scale: float = 1.0
    scale_multipliers: Multipliers = PLAIN
    shift_multipliers: Multipliers = PLAIN
    inputs: tuple[str, ...] = ()
    frozen: bool = False

    def __post_init__(self) -> None:
        _check_epsilon(self.name, self.epsilon)
        if not 0 < self.momentum <= 1:
            raise NetworkError(
                f"layer '{self.name}': momentum = {self.momentum}, expected above 0 and at most 1"
            )

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input."""
        return only_shape(self.name, input_shapes)

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:
        """Scale, shift, running mean and running variance, each (C,)."""
        shape = only_shape(self.name, input_shapes)[-1:]
        momentum = 0.0 if self.frozen else self.momentum
        return (
            *scale_and_shift(
                self.name,
                shape,
                self.initial_scale,
                (self.scale_multipliers, self.shift_multipliers),
            ),
            ParameterSpec(
                f"{self.name}.running_mean",
                shape,
                "running_mean",
                statistic_momentum=momentum,
            ),
            ParameterSpec(
                f"{self.name}.running_variance",
                shape,
                "running_variance",
                initial=Initial("constant", 1.0),
                statistic_momentum=momentum,
            ),
        )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> BatchNormalisationShape:
        """Of maps (H,W,C), or of vectors, as maps of one pixel."""
        shape = only_shape(self.name, input_shapes)
        height, width = shape[:2] if len(shape) == 3 else (1, 1)
        return BatchNormalisationShape((images, height, width, shape[-1]), self.epsilon)


@dataclass(frozen=True, slots=True)
class LayerNormalisation(Layer):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over the channels of each pixel.

    Ba, Kiros and Hinton, arXiv 1607.06450, in the form of ConvNeXt (Liu et al., CVPR 2022); the
    variance is the biased one. Of a vector it takes all units.
    """

    name: str
    epsilon: float = 1e-5
    scale_multipliers: Multipliers = PLAIN
    shift_multipliers: Multipliers = PLAIN
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_epsilon(self.name, self.epsilon)

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input."""
        return only_shape(self.name, input_shapes)

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:
        """Scale and shift, each (C,)."""
        shape = only_shape(self.name, input_shapes)[-1:]
        return scale_and_shift(
            self.name, shape, 1.0, (self.scale_multipliers, self.shift_multipliers)
        )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> LayerNormalisationShape:
        """Of maps (H,W,C) or vectors (C,)."""
        return LayerNormalisationShape((images, *only_shape(self.name, input_shapes)), self.epsilon)


@dataclass(frozen=True, slots=True)
class LocalResponseNormalisation(Layer):
    """x (bias + alpha / size * sum of squares of `size` neighbouring channels)^-beta.

    Krizhevsky, Sutskever and Hinton, NIPS 2012, section 3.3, with alpha divided by the size as
    Caffe and PyTorch do. Channels beyond the first and last count as zero.
    """

    name: str
    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1 or self.size % 2 == 0:
            raise NetworkError(
                f"layer '{self.name}': size = {self.size}, expected an odd number of channels"
            )
        # A sum of squares may be zero: the base of the power must not.
        if not self.bias > 0 or not self.alpha >= 0:
            raise NetworkError(
                f"layer '{self.name}': bias = {self.bias} and alpha = {self.alpha}, expected "
                "bias > 0 and alpha >= 0"
            )

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input, a feature map."""
        return feature_map(self.name, input_shapes)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> LocalResponseShape:
        """Of maps (H,W,C)."""
        return LocalResponseShape(
            (images, *feature_map(self.name, input_shapes)),
            self.size,
            self.alpha,
            self.beta,
            self.bias,
        )


@dataclass(frozen=True, slots=True)
class WithinChannelNormalisation(Layer):
    """x (1 + alpha * mean of squares in `size` x `size` pixels of the same channel)^-beta.

    Caffe's LRN with norm_region WITHIN_CHANNEL. Pixels beyond the edges count as zero.
    """

    name: str
    size: int = 5
    alpha: float = 1.0
    beta: float = 0.75
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1 or self.size % 2 == 0:
            raise NetworkError(
                f"layer '{self.name}': size = {self.size}, expected an odd number of pixels"
            )
        if not 0 <= self.alpha < math.inf or not math.isfinite(self.beta):
            raise NetworkError(
                f"layer '{self.name}': alpha = {self.alpha} and beta = {self.beta}, expected "
                "finite numbers, alpha not below 0"
            )

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input, a feature map."""
        return feature_map(self.name, input_shapes)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> WithinChannelShape:
        """Of maps (H,W,C)."""
        maps = (images, *feature_map(self.name, input_shapes))
        return WithinChannelShape(maps, self.size, self.alpha, self.beta)
