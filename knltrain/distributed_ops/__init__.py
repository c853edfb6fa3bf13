"""A library of layers that own their kernels, their gradient and its sum over all processes.

After H. Kim, *Library-level Distributed Processing Method for CNN Training Using GPU Clusters*
(Seoul National University, 2020). Such a layer is used from any script:

    handle = layer.backward_weights(values, gradient)  # its sum over all ranks is under way
    gradient = layer.backward_data(gradient)           # meanwhile
    handle.wait()                                      # for this layer's sum alone
    layer.step(learning_rate)

No network, worker, configuration or scheduler is needed. docs/library.md has a whole program.
"""

from knltrain.communication.reduction import NodeReducer, Reducer, Reduction, SingleProcessReducer
from knltrain.distributed_ops.activation import ReLU
from knltrain.distributed_ops.convolution import Convolution
from knltrain.distributed_ops.costs import Cost
from knltrain.distributed_ops.dense import Dense
from knltrain.distributed_ops.dropout import Dropout
from knltrain.distributed_ops.gradient import GradientHandle
from knltrain.distributed_ops.graph import Graph
from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.local_response import LocalResponseNormalisation
from knltrain.distributed_ops.loss import SoftmaxCrossEntropy
from knltrain.distributed_ops.machine import Machine
from knltrain.distributed_ops.merging import Addition, Concatenation
from knltrain.distributed_ops.normalisation import BatchNormalisation
from knltrain.distributed_ops.options import Options, use_threads
from knltrain.distributed_ops.pooling import AveragePooling, GlobalAveragePooling, MaxPooling
from knltrain.distributed_ops.shaping import Flatten, Images
from knltrain.distributed_ops.table import Row, printed, table
from knltrain.distributed_ops.times import Times
from knltrain.distributed_ops.weighted import WeightedLayer

__all__ = [
    "Addition",
    "AveragePooling",
    "BatchNormalisation",
    "Concatenation",
    "Convolution",
    "Cost",
    "Dense",
    "Dropout",
    "Flatten",
    "GlobalAveragePooling",
    "GradientHandle",
    "Graph",
    "Images",
    "Layer",
    "LocalResponseNormalisation",
    "Machine",
    "MaxPooling",
    "NodeReducer",
    "Options",
    "ReLU",
    "Reducer",
    "Reduction",
    "Row",
    "SingleProcessReducer",
    "SoftmaxCrossEntropy",
    "Times",
    "WeightedLayer",
    "printed",
    "table",
    "use_threads",
]
