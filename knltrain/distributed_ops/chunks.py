"""Output channels cut into chunks: the sum of one overlaps with computing the next."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from knltrain.errors import NetworkError


@dataclass(frozen=True, slots=True)
class Chunk:
    """Output channels and, in a grouped convolution, the input channels that they read."""

    outputs: slice
    inputs: slice
    groups: int = 1


def cut(name: str, outputs: int, inputs: int, groups: int, chunks: int) -> list[Chunk]:
    """Cut the channels of a layer into nearly equal chunks, of whole groups if there are several.

    Raises NetworkError for fewer than one chunk, or more than there are groups or outputs.
    """
    units = groups if groups > 1 else outputs
    if not 1 <= chunks <= units:
        raise NetworkError(
            f"layer '{name}' cannot reduce its gradient in {chunks} chunks: expected 1 to {units}, "
            f"its {'groups' if groups > 1 else 'output channels'}"
        )
    bounds = [units * number // chunks for number in range(chunks + 1)]
    if groups == 1:
        everything = slice(0, inputs)
        return [Chunk(slice(a, b), everything) for a, b in pairwise(bounds)]
    wide, deep = outputs // groups, inputs // groups
    return [
        Chunk(slice(a * wide, b * wide), slice(a * deep, b * deep), b - a)
        for a, b in pairwise(bounds)
    ]
