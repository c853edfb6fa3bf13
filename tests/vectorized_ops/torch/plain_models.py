"""Networks as people write them in PyTorch, torchvision's manner, nothing of ours in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """ResNet-50 v1.5 unless told otherwise (He et al. 2015, arXiv 1512.03385)."""

    def __init__(
        self, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels, layers = width, []
        for stage, number in enumerate(blocks):
            for i in range(number):
                stride = 2 if stage > 0 and i == 0 else 1
                layers.append(Bottleneck(channels, width << stage, stride))
                channels = 4 * (width << stage)
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layers(x))
        return self.fc(torch.flatten(x, 1))


class ConvReLU(nn.Module):
    def __init__(self, channels: int, out: int, **options: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, **options)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.conv(x))


class Inception(nn.Module):
    def __init__(self, channels: int, out: Sequence[int]) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pooled = out
        self.branch1 = ConvReLU(channels, one, kernel_size=1)
        self.branch2 = nn.Sequential(
            ConvReLU(channels, reduce3, kernel_size=1),
            ConvReLU(reduce3, three, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            ConvReLU(channels, reduce5, kernel_size=1),
            ConvReLU(reduce5, five, kernel_size=5, padding=2),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, 1, 1), ConvReLU(channels, pooled, kernel_size=1)
        )
        self.out = one + three + five + pooled

    def forward(self, x: Tensor) -> Tensor:
        branches = [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]
        return torch.cat(branches, 1)


class Auxiliary(nn.Module):
    def __init__(self, channels: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(5, 3)
        self.conv = ConvReLU(channels, 128, kernel_size=1)
        self.fc1, self.fc2 = nn.Linear(2048, 1024), nn.Linear(1024, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(self.conv(self.pool(x)), 1)
        return self.fc2(self.dropout(functional.relu(self.fc1(x))))


MODULES = {
    "a3": (64, 96, 128, 16, 32, 32),
    "b3": (128, 128, 192, 32, 96, 64),
    "a4": (192, 96, 208, 16, 48, 64),
    "b4": (160, 112, 224, 24, 64, 64),
    "c4": (128, 128, 256, 24, 64, 64),
    "d4": (112, 144, 288, 32, 64, 64),
    "e4": (256, 160, 320, 32, 128, 128),
    "a5": (256, 160, 320, 32, 128, 128),
    "b5": (384, 192, 384, 48, 128, 128),
}


class GoogLeNet(nn.Module):
    """GoogLeNet as published, LRN and auxiliary outputs included (arXiv 1409.4842)."""

    def __init__(self, classes: int = 1000, dropout: float = 0.4) -> None:
        super().__init__()
        self.conv1 = ConvReLU(3, 64, kernel_size=7, stride=2, padding=3)
        self.conv2 = ConvReLU(64, 64, kernel_size=1)
        self.conv3 = ConvReLU(64, 192, kernel_size=3, padding=1)
        self.lrn = nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        channels, inceptions = 192, {}
        for name, out in MODULES.items():
            inceptions[name] = Inception(channels, out)
            channels = inceptions[name].out
        self.inceptions = nn.ModuleDict(inceptions)
        self.auxiliary1 = Auxiliary(512, classes, dropout)
        self.auxiliary2 = Auxiliary(528, classes, dropout)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Any:
        x = self.lrn(self.pool(self.conv1(x)))
        x = self.pool(self.lrn(self.conv3(self.conv2(x))))
        further = []
        for name, inception in self.inceptions.items():
            x = inception(x)
            if name in ("b3", "e4"):
                x = self.pool(x)
            if self.training and name == "a4":
                further.append(self.auxiliary1(x))
            if self.training and name == "d4":
                further.append(self.auxiliary2(x))
        x = self.fc(self.dropout(torch.flatten(self.average(x), 1)))
        return (x, *further) if self.training else x


def loss_of(out: Any, labels: Tensor) -> Tensor:
    """Cross-entropy, that of auxiliary outputs times 0.3."""
    if not isinstance(out, tuple):
        return functional.cross_entropy(out, labels)
    first, *further = (functional.cross_entropy(logits, labels) for logits in out)
    return first + 0.3 * sum(further)
