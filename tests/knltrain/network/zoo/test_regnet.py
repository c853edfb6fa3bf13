"""RegNet, number for number as published."""

from __future__ import annotations

from knltrain.network.zoo.regnet import regnet_x_400mf


def test_widths_follow_the_line() -> None:
    network = regnet_x_400mf()
    shapes = [network.shape_of(f"block{stage}/0/relu") for stage in (1, 2, 3, 4)]
    assert shapes == [(56, 56, 32), (28, 28, 64), (14, 14, 160), (7, 7, 400)]
