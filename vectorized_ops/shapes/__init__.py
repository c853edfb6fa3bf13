"""Shapes of operations, the same for every implementation, and their costs."""

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import found_in

if TYPE_CHECKING:
    from vectorized_ops.shapes.activation import *
    from vectorized_ops.shapes.channels import *
    from vectorized_ops.shapes.elementwise import *
    from vectorized_ops.shapes.normalisation import *
    from vectorized_ops.shapes.operation import *
    from vectorized_ops.shapes.pooling import *
    from vectorized_ops.shapes.training import *
    from vectorized_ops.shapes.weighted import *

_MODULES = (
    "operation",
    "weighted",
    "pooling",
    "activation",
    "elementwise",
    "normalisation",
    "training",
    "channels",
)

__getattr__ = found_in(__name__, _MODULES)
