"""What networks of convolutions and batch normalisations are made of."""

from __future__ import annotations

from knltrain.network.layers import BatchNormalisation, Convolution, Layer


def unbiased(
    name: str,
    filters: int,
    size: int,
    stride: int = 1,
    groups: int = 1,
    inputs: tuple[str, ...] = (),
) -> Convolution:
    """A convolution that keeps the maps' size but for its stride; first weights are "msra".

    It has no bias: the normalisation behind it takes its place.
    """
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


def normalised(
    name: str,
    filters: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    inputs: tuple[str, ...] = (),
    epsilon: float = 1e-5,
    momentum: float = 0.1,
) -> list[Layer]:
    """`unbiased`, and the batch normalisation behind it."""
    return [
        unbiased(name, filters, kernel, stride, groups, inputs),
        BatchNormalisation(f"{name}/bn", epsilon=epsilon, momentum=momentum),
    ]


def divisible(channels: float, by: int = 8) -> int:
    """The nearest multiple, but not below nine tenths of what was asked for.

    A half is rounded up (Sandler et al., CVPR 2018, and their code).
    """
    nearest = max(by, int(channels + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * channels else nearest
