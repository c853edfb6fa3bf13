"""The stages of a plan: each is an operation bound to its arrays, forward and backward."""

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import on_demand

if TYPE_CHECKING:
    from knltrain.backends.cpu.stages.channels import *
    from knltrain.backends.cpu.stages.elementwise import *
    from knltrain.backends.cpu.stages.merging import *
    from knltrain.backends.cpu.stages.normalisation import *
    from knltrain.backends.cpu.stages.pooling import *
    from knltrain.backends.cpu.stages.stage import *
    from knltrain.backends.cpu.stages.weighted import *

_NAMES = {
    "channels": ("ChannelScaleStage", "ChannelSelectionStage"),
    "elementwise": (
        "ActivationStage",
        "AffineStage",
        "DropoutStage",
        "PReLUStage",
        "PaddingStage",
        "ReLUStage",
        "RectifierStage",
    ),
    "merging": ("AdditionStage", "ChannelProductStage", "CopyStage"),
    "normalisation": (
        "BatchNormalisationStage",
        "LayerNormalisationStage",
        "LocalResponseNormalisationStage",
        "Statistics",
    ),
    "pooling": ("AveragePoolingStage", "MaxPoolingStage"),
    "stage": ("OperationStage", "Run", "Stage", "Views"),
    "weighted": ("FlattenStage", "PooledConvolutionStage", "WeightedStage"),
}

__all__ = [name for names in _NAMES.values() for name in names]
__getattr__ = on_demand(__name__, _NAMES)
