from __future__ import annotations

import pytest
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import Convolution

from ..importing import images_of, imported_of


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


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "unknown operation 'pad'"),
        (nn.Conv2d(2, 2, 2, padding="same"), "one side more: expected an odd kernel"),
    ],
)
def test_padding_that_a_network_has_not_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
