"""Elastic averaging on a device."""

from __future__ import annotations

import numpy as np
import torch

from vectorized_ops.device.groups import fused_kernels


def elastic_increment(
    local: torch.Tensor, center: torch.Tensor, increment: torch.Tensor, moving_rate: float
) -> None:
    """Take the step of `vectorized_ops.reference.elastic.elastic_increment`, to the bit.

    All have shape (n,) float32; one pass over memory where Triton works.
    """
    rate = float(np.float32(moving_rate))
    if fused_kernels(local.device) is not None:
        from vectorized_ops.device.fused import launch_elastic

        launch_elastic(local, center, increment, rate)
        return
    torch.sub(local, center, out=increment)
    increment *= rate
    local -= increment
