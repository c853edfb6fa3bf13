"""The convolution of networks with batch normalisation, which takes the place of its bias."""

from __future__ import annotations

from knltrain.network.layers import Convolution


def unbiased(
    name: str,
    filters: int,
    size: int,
    stride: int = 1,
    groups: int = 1,
    inputs: tuple[str, ...] = (),
) -> Convolution:
    """A convolution that keeps the maps' size but for its stride; first weights are "msra"."""
    return Convolution(
        name,
        filters,
        size,
        stride,
        padding=size // 2,
        groups=groups,
        bias=False,
        initialiser="msra",
        inputs=inputs,
    )
