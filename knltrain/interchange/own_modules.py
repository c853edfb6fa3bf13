"""Modules that PyTorch's `nn` lacks."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Affine(nn.Module):
    """factor * x + offset."""

    def __init__(self, factor: float, offset: float) -> None:
        super().__init__()
        self.factor, self.offset = factor, offset

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values of any shape."""
        return values * self.factor + self.offset


class WithinChannelNorm(nn.Module):
    """x (1 + alpha * mean of the squares in windows of the same channel)^-beta, as Caffe's LRN."""

    def __init__(self, size: int, alpha: float, beta: float) -> None:
        super().__init__()
        self.size, self.alpha, self.beta = size, alpha, beta

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Maps (N, C, H, W)."""
        means = functional.avg_pool2d(values.square(), self.size, 1, self.size // 2)
        return values * (1 + self.alpha * means) ** -self.beta


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of maps (N,C,H,W), or over vectors (N,C)."""

    def __init__(
        self,
        channels: int,
        epsilon: float,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(channels, dtype=dtype, device=device))
        self.bias = nn.Parameter(torch.zeros(channels, dtype=dtype, device=device))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Of each pixel by itself."""
        last = values.movedim(1, -1)
        found = functional.layer_norm(last, last.shape[-1:], self.weight, self.bias, self.epsilon)
        return found.movedim(-1, 1)


class ChannelScale(nn.Module):
    """Each channel of maps (N,C,H,W) or vectors (N,C) times its factor."""

    def __init__(
        self, channels: int, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, dtype=dtype, device=device))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return values * self.weight.reshape(-1, *[1] * (values.ndim - 2))


class ChannelSlice(nn.Module):
    """Channels `first` to `last` (not included) of maps (N,C,H,W) or vectors (N,C)."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self.first, self.last = first, last

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """A view."""
        return values[:, self.first : self.last]


class FrozenBatchNorm1d(nn.BatchNorm1d):
    """Batch normalisation by running statistics, in training, too."""

    def train(self, mode: bool = True) -> FrozenBatchNorm1d:  # noqa: ARG002
        """It stays in evaluation."""
        return super().train(False)


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
