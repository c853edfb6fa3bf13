"""Parameters of a module become those of one layer each, or are refused with their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch

from .importing import Forward, images_of, imported_of


def _shared(own: Any, images: torch.Tensor) -> Any:
    return own.conv(own.conv(images))


class Filtered(nn.Module):
    """A filter that is not trained."""

    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("filter", torch.ones(2, 1, 3, 3), persistent=persistent)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.conv2d(images, self.filter, groups=2)  # type: ignore[arg-type]


def _of(work: Callable[[Any, torch.Tensor], Any]) -> nn.Module:
    return Forward(work, conv=nn.Conv2d(2, 2, 1))


def test_views_of_whole_parameters_are_these() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        means = images.mean((2, 3))
        return F.linear(means, own.conv.weight.flatten(1), own.conv.bias[:2])

    keys = imported_of(_of(work), images_of()).keys
    assert keys == {"linear.weights": "conv.weight", "linear.bias": "conv.bias"}


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Filtered(persistent=True), "'filter' is none: expected a parameter"),
        (Filtered(persistent=False), "'filter' is none: expected a parameter"),
        (_of(_shared), "'conv.weight' is a parameter of 'conv', too: expected parameters"),
        (_of(lambda own, images: F.conv2d(images, own.conv.weight * 2)), "from parameters alone"),
        (
            _of(
                lambda own, images: F.linear(
                    images.mean((2, 3)), own.conv.weight.reshape(1, 4)[:, :2]
                )
            ),
            "computes from parameters alone",
        ),
    ],
)
def test_other_tensors_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
