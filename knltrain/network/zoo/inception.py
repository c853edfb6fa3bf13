"""What the later Inception networks are made of: branches of normalised convolutions, joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Layer,
    MaxPooling,
    Pair,
    ReLU,
)

EPSILON: Final = 1e-3
"""Of batch normalisation."""


class Step(NamedTuple):
    """A convolution of a branch; `same` pads the maps so that they keep their size."""

    filters: int
    kernel: int | Pair = 1
    stride: int = 1
    same: bool = True


def branch(name: str, source: str, *steps: Step) -> list[Layer]:
    """Convolutions without bias one after the other, each with batch normalisation and ReLU.

    First weights are normal with a deviation of 0.1.
    """
    layers: list[Layer] = []
    for number, step in enumerate(steps):
        own = f"{name}/{number}" if len(steps) > 1 else name
        kernel = step.kernel if isinstance(step.kernel, tuple) else (step.kernel, step.kernel)
        layers += [
            Convolution(
                own,
                step.filters,
                kernel,
                step.stride,
                (kernel[0] // 2, kernel[1] // 2) if step.same else 0,
                bias=False,
                initialiser="gaussian:0.1",
                inputs=() if layers else (source,),
            ),
            BatchNormalisation(f"{own}/bn", epsilon=EPSILON),
            ReLU(f"{own}/relu"),
        ]
    return layers


def average(name: str, source: str, filters: int, counts_padding: bool) -> list[Layer]:
    """A branch of means over 3x3 pixels and a 1x1 convolution."""
    pool = AveragePooling(f"{name}/pool", 3, 1, 1, counts_padding=counts_padding, inputs=(source,))
    return [pool, *branch(name, pool.name, Step(filters))]


def halved(name: str, source: str) -> list[Layer]:
    """A branch of the largest of 3x3 pixels, to maps of half the size."""
    return [MaxPooling(name, 3, 2, inputs=(source,))]


def split(name: str, source: str, filters: int, *steps: Step) -> list[Layer]:
    """A branch whose end is two convolutions, 1x3 and 3x1, of the same maps."""
    trunk = branch(f"{name}/trunk", source, *steps)
    end = trunk[-1].name
    left = branch(f"{name}/1x3", end, Step(filters, (1, 3)))
    right = branch(f"{name}/3x1", end, Step(filters, (3, 1)))
    return [*trunk, *joined(name, left, right)]


def joined(name: str, *branches: Sequence[Layer]) -> list[Layer]:
    """All branches, and the concatenation of their ends."""
    layers = [layer for each in branches for layer in each]
    return [*layers, Concatenation(name, tuple(each[-1].name for each in branches))]


def stem() -> list[Layer]:
    """The first layers of Inception-v3 and Inception-ResNet-v2, to 35x35 pixels of 192 channels."""
    return [
        *branch("stem/0", "images", Step(32, 3, 2, same=False)),
        *branch("stem/1", "stem/0/relu", Step(32, 3, same=False), Step(64, 3)),
        MaxPooling("stem/pool", 3, 2),
        *branch("stem/2", "stem/pool", Step(80), Step(192, 3, same=False)),
        MaxPooling("stem/pool2", 3, 2),
    ]


def of_5x5(name: str, source: str, first: int, pooled: int, counts_padding: bool) -> list[Layer]:
    """A module of 1x1, 5x5 and two 3x3 convolutions, and of means."""
    return joined(
        name,
        branch(f"{name}/1x1", source, Step(first)),
        branch(f"{name}/5x5", source, Step(48), Step(64, 5)),
        branch(f"{name}/double", source, Step(64), Step(96, 3), Step(96, 3)),
        average(f"{name}/average", source, pooled, counts_padding),
    )


def to_17x17(name: str, source: str, inner: tuple[int, int, int]) -> list[Layer]:
    """A module that makes maps of half the size; `inner` are the filters of its long branch."""
    last = Step(inner[2], 3, 2, same=False)
    return joined(
        name,
        branch(f"{name}/3x3", source, Step(384, 3, 2, same=False)),
        branch(f"{name}/double", source, Step(inner[0]), Step(inner[1], 3), last),
        halved(f"{name}/pool", source),
    )
