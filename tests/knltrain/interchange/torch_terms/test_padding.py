from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import AveragePooling, Convolution, Layer, MaxPooling, Padding

from ..importing import Forward, images_of, imported_of

LOWEST = float("-inf")


def layers_of(work: Any) -> tuple[Layer, ...]:
    """The layers of a convolution, `work` on its maps, and another convolution."""
    whole = nn.Sequential(
        nn.Conv2d(2, 2, 1), Forward(lambda _, maps: work(maps)), nn.Conv2d(2, 2, 3)
    )
    return imported_of(whole, images_of()).network.layers[1:]


def test_padding_on_one_side_is_a_layer() -> None:
    padding, convolution = layers_of(lambda maps: F.pad(maps, (0, 1, 2, 3)))
    assert padding == Padding("1.pad", 2, 3, 0, 1, inputs=("0",))
    assert convolution.inputs == ("1.pad",)


def test_padding_of_no_pixels_is_none() -> None:
    (convolution,) = layers_of(lambda maps: F.pad(maps, (0, 0, 0, 0)))
    assert convolution.inputs == ("0",)


def test_module_of_zeros_before_a_convolution_is_its_padding() -> None:
    module = nn.Sequential(nn.ZeroPad2d((2, 2, 1, 1)), nn.Conv2d(2, 2, 3, padding=1))
    (layer,) = imported_of(module, images_of()).network.layers
    assert isinstance(layer, Convolution)
    assert (layer.name, layer.padding, layer.inputs) == ("1", (2, 3), ("images",))


def test_lowest_values_before_a_max_pooling_are_its_padding() -> None:
    def work(maps: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.pad(maps, (1, 1, 1, 1), value=LOWEST), 3, 2)

    pooling, _ = layers_of(work)
    assert pooling == MaxPooling("1.max_pool2d", 3, 2, 1, inputs=("0",))


@pytest.mark.parametrize(
    ("sides", "value", "kind"),
    [
        ((1, 1, 1, 1), 0.0, MaxPooling),  # a padding of its own is below any value
        ((0, 1, 0, 1), LOWEST, MaxPooling),
        ((2, 2, 2, 2), LOWEST, MaxPooling),  # more than half of the kernel
        ((1, 1, 1, 1), 0.0, AveragePooling),
    ],
)
def test_padding_that_a_window_does_not_say_stays(
    sides: tuple[int, ...], value: float, kind: type[Layer]
) -> None:
    pool = F.max_pool2d if kind is MaxPooling else F.avg_pool2d
    padding, pooling, _ = layers_of(lambda maps: pool(F.pad(maps, sides, value=value), 3, 2))
    assert isinstance(padding, Padding)
    assert padding.lowest is (value == LOWEST)
    assert isinstance(pooling, kind)


def test_padding_that_another_reads_stays() -> None:
    def work(maps: torch.Tensor) -> torch.Tensor:
        padded = F.pad(maps, (1, 1, 1, 1))
        return padded + torch.relu(padded)

    assert isinstance(layers_of(work)[0], Padding)


@pytest.mark.parametrize(
    ("pad", "message"),
    [
        ({"pad": (1, 1, 1, 1), "mode": "reflect"}, "padding of mode 'reflect', expected"),
        ({"pad": (1, 1, 1, 1), "value": 1.0}, "padding with 1.0, expected 0 or -inf"),
        ({"pad": (-1, 1, 0, 0)}, r"padding by \[-1, 1, 0, 0\], expected 0 or more"),
        ({"pad": (0, 0, 0, 0, 1, 1)}, r"padding by \[0, 0, 0, 0, 1, 1\], expected"),
    ],
)
def test_other_paddings_are_named(pad: dict[str, Any], message: str) -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), Forward(lambda _, maps: F.pad(maps, **pad)))
    with pytest.raises(NetworkError, match=message):
        from_torch(whole, images_of())
