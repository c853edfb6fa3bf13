"""The stages of a plan: each is an operation bound to its arrays, forward and backward."""

from knltrain.backends.cpu.stages.elementwise import DropoutStage, RectifierStage, ReLUStage
from knltrain.backends.cpu.stages.merging import AdditionStage, CopyStage
from knltrain.backends.cpu.stages.normalisation import (
    BatchNormalisationStage,
    LocalResponseNormalisationStage,
)
from knltrain.backends.cpu.stages.pooling import AveragePoolingStage, MaxPoolingStage
from knltrain.backends.cpu.stages.stage import Run, Stage, Views
from knltrain.backends.cpu.stages.weighted import (
    FlattenStage,
    PooledConvolutionStage,
    WeightedStage,
)

__all__ = [
    "AdditionStage",
    "AveragePoolingStage",
    "BatchNormalisationStage",
    "CopyStage",
    "DropoutStage",
    "FlattenStage",
    "LocalResponseNormalisationStage",
    "MaxPoolingStage",
    "PooledConvolutionStage",
    "ReLUStage",
    "RectifierStage",
    "Run",
    "Stage",
    "Views",
    "WeightedStage",
]
