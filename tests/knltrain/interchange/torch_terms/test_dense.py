from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from knltrain.network.layers import Convolution, Dense, GlobalAveragePooling

from ..importing import Forward, images_of, imported_of


@pytest.mark.parametrize("bias", [False, True])
def test_dense_layers_take_flattened_maps_and_vectors(bias: bool) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(128, 4, bias), nn.Linear(4, 3, bias))
    assert imported_of(module, images_of()).network.layers == (
        Dense("1", 4, bias, inputs=("images",)),
        Dense("2", 3, bias, inputs=("1",)),
    )


@pytest.mark.parametrize("bias", [False, True])
def test_dense_layers_of_maps_with_channels_last_are_1x1_convolutions(bias: bool) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.wide(images.permute(0, 2, 3, 1))
        return own.head(maps.mean((1, 2), keepdim=True)).flatten(1)

    imported = imported_of(
        Forward(work, wide=nn.Linear(2, 5, bias), head=nn.Linear(5, 3)), images_of()
    )
    assert imported.network.layers == (
        Convolution("wide", 5, 1, bias=bias, inputs=("images",)),
        GlobalAveragePooling("mean", inputs=("wide",)),
        Dense("head", 3, inputs=("mean",)),
    )
    imported.parameters.views["wide.weights"][1, 0] = 7
    assert imported.to_torch().wide.weight[1, 0] == 7
