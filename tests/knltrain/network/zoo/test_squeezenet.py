"""SqueezeNet, number for number as published."""

from __future__ import annotations

from knltrain.network.zoo.squeezenet import squeezenet1_0


def test_maps_have_the_sizes_of_the_paper() -> None:
    """Table 1 of the paper, whose first convolution has a padding that torchvision's has not."""
    network = squeezenet1_0()
    sizes = [network.shape_of(f"features/{number}") for number in (0, 2, 6, 11)]
    assert sizes == [(109, 109, 96), (54, 54, 96), (27, 27, 256), (13, 13, 512)]
