"""Output channels cut into chunks: the first is under way while the second is computed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from knltrain.errors import NetworkError


@dataclass(frozen=True, slots=True)
class Chunk:
    """Output channels and, where these see only some of them, input channels."""

    outputs: slice
    inputs: slice
    groups: int = 1


def cut(name: str, outputs: int, inputs: int, groups: int, chunks: int) -> list[Chunk]:
    """Cut the channels of a layer: whole groups if there are several, as equal as can be.

    Raises NetworkError for fewer than one chunk and more than there are groups, or outputs.
    """
    units = groups if groups > 1 else outputs
    if not 1 <= chunks <= units:
        raise NetworkError(
            f"layer '{name}' was to reduce its gradient in {chunks} chunks: expected 1 to {units}, "
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
