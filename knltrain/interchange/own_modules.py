"""Modules that PyTorch's `nn` lacks."""

from __future__ import annotations

import torch
from torch import nn


class Affine(nn.Module):
    """factor * x + offset."""

    def __init__(self, factor: float, offset: float) -> None:
        super().__init__()
        self.factor, self.offset = factor, offset

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values of any shape."""
        return values * self.factor + self.offset


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation by running statistics, in training, too."""

    def train(self, mode: bool = True) -> FrozenBatchNorm2d:  # noqa: ARG002
        """It stays in evaluation."""
        return super().train(False)


class StochasticDepth(nn.Module):
    """Sets all values of an image to zero with probability `rate`, others to x / (1 - rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values (N, ...) in training; in evaluation they pass as they are."""
        if not self.training or not self.rate:
            return values
        kept = values.new_empty((len(values), *[1] * (values.ndim - 1)))
        return values * kept.bernoulli_(1 - self.rate).div_(1 - self.rate)
