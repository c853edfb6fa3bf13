"""Fused operations for training your own PyTorch models on a CPU.

`optimize(model)` puts them into a model; functions and modules can be used directly as well. They
take images (N, C, H, W) on the CPU, float32 or bfloat16, and work in channels_last memory, in
PyTorch's threads. For the same number of threads, results are the same to the last bit. Input that
they do not support goes to PyTorch's operations.
"""

from __future__ import annotations

from vectorized_ops.torch.activation import ReLU, relu
from vectorized_ops.torch.branches import concatenate
from vectorized_ops.torch.convolution import Conv2dReLU, conv2d_relu
from vectorized_ops.torch.lrn import LocalResponseNorm, local_response_norm
from vectorized_ops.torch.memory import keep_memory
from vectorized_ops.torch.normalisation import (
    BatchNorm2d,
    BatchNormAddReLU2d,
    BatchNormReLU2d,
    batch_norm,
)
from vectorized_ops.torch.optimisation import (
    Fusion,
    OptimizationWarning,
    fusion_of,
    optimize,
    plain,
)
from vectorized_ops.torch.pooling import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    MaxPool2d,
    adaptive_avg_pool2d,
    avg_pool2d,
    max_pool2d,
)

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BatchNorm2d",
    "BatchNormAddReLU2d",
    "BatchNormReLU2d",
    "Conv2dReLU",
    "Fusion",
    "LocalResponseNorm",
    "MaxPool2d",
    "OptimizationWarning",
    "ReLU",
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "concatenate",
    "conv2d_relu",
    "fusion_of",
    "keep_memory",
    "local_response_norm",
    "max_pool2d",
    "optimize",
    "plain",
    "relu",
]
