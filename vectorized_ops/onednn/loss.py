"""Softmax cross-entropy by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
) -> float:
    """See `vectorized_ops.reference.loss.softmax_cross_entropy`."""
    number, share = len(labels), smoothing / logits.shape[1]
    logarithms = torch.log_softmax(tensor(logits)[:number], dim=1)
    right = tensor(labels)[:, None]
    target = tensor(gradient)
    torch.exp(logarithms, out=target[:number])
    target[:number] -= share
    target[:number].scatter_add_(1, right, torch.full_like(logarithms[:, :1], smoothing - 1))
    target[:number] *= weight / number
    target[number:] = 0
    loss = (1 - smoothing) * float(logarithms.gather(1, right).double().sum())
    if smoothing:  # 0 * inf would be NaN
        loss += share * float(logarithms.double().sum())
    return -weight * loss
