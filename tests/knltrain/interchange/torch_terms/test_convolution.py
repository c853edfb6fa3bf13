from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import Convolution, Dense

from ..importing import Forward, images_of, imported_of


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        (nn.Conv2d(2, 3, 3), Convolution("0", 3, 3, inputs=("images",))),
        (
            nn.Conv2d(2, 6, (3, 1), (1, 2), (1, 0), (2, 1), groups=2, bias=False),
            Convolution(
                *("0", 6, (3, 1), (1, 2), (1, 0), (2, 1)), groups=2, bias=False, inputs=("images",)
            ),
        ),
        (
            nn.Conv2d(2, 2, (3, 5), padding="same", dilation=(2, 1)),
            Convolution("0", 2, (3, 5), padding=(2, 2), dilation=(2, 1), inputs=("images",)),
        ),
        (nn.Conv2d(2, 2, 3, padding="valid"), Convolution("0", 2, 3, inputs=("images",))),
    ],
)
def test_every_setting_is_read(module: nn.Module, layer: Convolution) -> None:
    assert imported_of(nn.Sequential(module), images_of()).network.layers == (layer,)


def _of_means(**settings: Any) -> nn.Module:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        return own.conv(images.mean((2, 3), True)).flatten(1)

    return Forward(work, conv=nn.Conv2d(2, 4, **settings))


@pytest.mark.parametrize("padding", [0, "same", "valid"])
def test_1x1_convolution_of_means_is_a_dense_layer(padding: int | str) -> None:
    layers = imported_of(_of_means(kernel_size=1, padding=padding), images_of()).network.layers
    assert layers[1:] == (Dense("conv", 4, inputs=("mean",)),)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_of_means(kernel_size=1, padding=1), r"padding = \[1, 1\], only 0 is supported"),
        (_of_means(kernel_size=3, padding=1), r"kernel \(3, 3\), .*expected a 1x1 convolution"),
        (_of_means(kernel_size=1, groups=2), "groups = 2 over means .*with groups = 1"),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "padding of mode 'reflect'"),
        (nn.Conv2d(2, 2, 2, padding="same"), "one side more: expected an odd kernel"),
    ],
)
def test_what_a_network_has_not_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
