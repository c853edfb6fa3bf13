"""Shapes of operations, the same for every implementation, and their costs."""

from vectorized_ops.shapes.convolution import ConvolutionShape
from vectorized_ops.shapes.dense import DenseShape
from vectorized_ops.shapes.memory_bound import (
    AdditionShape,
    BatchNormalisationShape,
    ConcatenationShape,
    CopyShape,
    DropoutShape,
    LocalResponseShape,
    RectifierShape,
    SgdShape,
    SoftmaxCrossEntropyShape,
)
from vectorized_ops.shapes.operation import FLOAT_BYTES, Cost, OperationShape
from vectorized_ops.shapes.pooling import (
    AveragePoolingShape,
    GlobalAveragePoolingShape,
    MaxPoolingShape,
    PoolingShape,
)
from vectorized_ops.shapes.windows import Pair

__all__ = [
    "FLOAT_BYTES",
    "AdditionShape",
    "AveragePoolingShape",
    "BatchNormalisationShape",
    "ConcatenationShape",
    "ConvolutionShape",
    "CopyShape",
    "Cost",
    "DenseShape",
    "DropoutShape",
    "GlobalAveragePoolingShape",
    "LocalResponseShape",
    "MaxPoolingShape",
    "OperationShape",
    "Pair",
    "PoolingShape",
    "RectifierShape",
    "SgdShape",
    "SoftmaxCrossEntropyShape",
]
