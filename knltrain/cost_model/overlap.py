"""What of an exchange's time on the link is hidden behind computing, and what was."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, final

from knltrain.network.network import Network


class Piece(NamedTuple):
    """A `share` of an exchange, which begins at a share of computing or later."""

    begins: float
    share: float


@final
class Overlap:
    """Pieces of an exchange that follow each other on a link; their shares add up to 1.

    A piece that has begun is over before the next one begins. With computing C and time on the
    link L, pieces i to the last end at begins_i C + L sum of shares_j, j >= i, or later, and the
    latest of these is when the exchange is over.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        shares = accumulate(piece.share for piece in reversed(pieces))
        self._behind = [
            (1.0 - piece.begins, left)
            for piece, left in zip(reversed(pieces), shares, strict=True)
            if left > 0
        ]

    def exposed(self, on_link: float, computing: float) -> float:
        """Return the seconds that an exchange goes on when computing is over."""
        return max(0.0, *(left * on_link - before * computing for before, left in self._behind))

    def on_link(self, exposed: float, computing: float) -> float:
        """Return the seconds on the link of which so many are exposed; none of what is hidden."""
        if exposed <= 0:
            return 0.0
        return min((exposed + before * computing) / left for before, left in self._behind)


AFTERWARDS: Final = Overlap([Piece(1.0, 1.0)])
"""That of an exchange which begins when all is computed."""


def meanwhile(share: float, *, behind: float = 1.0) -> Overlap:
    """A share of the exchange is hidden `behind` a share of computing; the rest comes afterwards.

    In the mean over all steps these are fewer than all where not every step has an exchange.
    """
    return Overlap([Piece(1.0 - behind, share), Piece(1.0, 1.0 - share)])


def by_parts(network: Network, parts: Sequence[slice]) -> Overlap:
    """Parts of the packed gradient, the last one first, from when the layers of each are done."""
    first = {spec.layer: spec.offset for spec in reversed(network.parameters)}
    done, whole = float(network.flops_per_image), float(network.training_flops_per_image)
    begins = {}
    for layer in reversed(network.layers):
        done += network.training_flops_of(layer) - network.flops_of(layer)
        if layer.name in first:
            begins[first[layer.name]] = done / whole
    sizes = [part.stop - part.start for part in parts]
    return Overlap(
        [
            Piece(begins[part.start], size / sum(sizes))
            for part, size in zip(reversed(parts), reversed(sizes), strict=True)
        ]
    )
