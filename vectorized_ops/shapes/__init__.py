"""Shapes of operations, the same for every implementation, and their costs."""

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import on_demand

if TYPE_CHECKING:
    from vectorized_ops.shapes.activation import *
    from vectorized_ops.shapes.channels import *
    from vectorized_ops.shapes.elementwise import *
    from vectorized_ops.shapes.normalisation import *
    from vectorized_ops.shapes.operation import *
    from vectorized_ops.shapes.pooling import *
    from vectorized_ops.shapes.training import *
    from vectorized_ops.shapes.weighted import *

_NAMES = {
    "activation": (
        "ACTIVATION_FUNCTIONS",
        "ActivationShape",
        "AffineShape",
        "DropoutShape",
        "ParametricRectifierShape",
        "RectifierShape",
    ),
    "channels": ("ChannelScaleShape", "ChannelSelectionShape", "shuffled_channels"),
    "elementwise": (
        "AdditionShape",
        "ChannelProductShape",
        "ConcatenationShape",
        "CopyShape",
        "PaddingShape",
    ),
    "normalisation": (
        "BatchNormalisationShape",
        "LayerNormalisationShape",
        "LocalResponseShape",
        "WithinChannelShape",
    ),
    "operation": ("FLOAT_BYTES", "Calls", "Cost", "OperationShape", "Pair", "TimedShape"),
    "pooling": (
        "AdaptivePoolingShape",
        "AveragePoolingShape",
        "GlobalAveragePoolingShape",
        "MaxPoolingShape",
        "PoolingShape",
    ),
    "training": ("SgdShape", "SoftmaxCrossEntropyShape"),
    "weighted": ("ConvolutionShape", "DenseShape"),
}

__all__ = [name for names in _NAMES.values() for name in names]
__getattr__ = on_demand(__name__, _NAMES)
