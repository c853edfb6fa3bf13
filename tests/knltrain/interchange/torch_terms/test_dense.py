from __future__ import annotations

import pytest
from torch import nn

from knltrain.network.layers import Dense

from ..importing import images_of, imported_of


@pytest.mark.parametrize("bias", [False, True])
def test_dense_layers_take_flattened_maps_and_vectors(bias: bool) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(128, 4, bias), nn.Linear(4, 3, bias))
    assert imported_of(module, images_of()).network.layers == (
        Dense("1", 4, bias, inputs=("images",)),
        Dense("2", 3, bias, inputs=("1",)),
    )
