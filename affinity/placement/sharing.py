"""Cuts a row of tiles among workers: evenly, and at the machine's own boundaries if possible.

Workers wait for the slowest of them, so the number of cores in the smallest group counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import TypeAlias

from affinity.placement.tiles import Tile

ALIGNED_SHARE = 0.9
"""Workers keep to whole packages, NUMA nodes and L3s where this costs the smallest at most 10 %.

Below it the slowest worker, for whom all wait, would cost more than memory that is further away.
"""

Group: TypeAlias = tuple[Tile, ...]

_BOUNDARIES: tuple[Callable[[Tile], Hashable], ...] = (
    lambda tile: tile.package,
    lambda tile: (tile.package, tile.numa_node),
    lambda tile: (tile.package, tile.numa_node, tile.l3),
)
"""What a tile belongs to, the boundaries that matter most first."""


def share(tiles: Group, workers: int, least: float | None = None) -> list[Group]:
    """Cut all `tiles` into one group for each worker, in order; the larger ones first.

    Every cut falls on the strongest boundary that leaves each worker `least` cores, by default
    `ALIGNED_SHARE` of what the smallest gets if no boundary is respected. Empty if the tiles are
    too few.
    """
    ends = [0, *accumulate(len(tile.cores) for tile in tiles)]
    smallest = _smallest(ends, 0, len(tiles), workers)
    if smallest < max(1, least or 0):
        return []
    levels = [_boundaries(tiles, level) for level in _BOUNDARIES]
    row = _Row(ends, levels, ALIGNED_SHARE * smallest if least is None else least)
    return [tiles[begin:end] for begin, end in row.cut(0, len(tiles), workers)]


def pack(tiles: Group, workers: int, cores: int) -> list[Group]:
    """Whole tiles with at least `cores` cores for each worker, from the front; the rest is left.

    No worker spans two L3s if all find room without that, else no two NUMA nodes, else no two
    packages. Empty if there is no room.
    """
    for level in (*reversed(_BOUNDARIES), lambda _: None):
        units = (tuple(unit) for _, unit in groupby(tiles, level))
        packed = [group for unit in units for group in _filled(unit, cores)]
        if len(packed) >= workers:
            return packed[:workers]
    return []


class _Row:
    """A row of tiles with `ends[i]` cores before tile i; `levels`: its boundaries by strength."""

    def __init__(self, ends: list[int], levels: list[list[int]], least: float) -> None:
        self.ends, self.levels, self.least = ends, levels, least

    def cut(self, begin: int, end: int, workers: int) -> list[tuple[int, int]]:
        """The groups of tiles begin..end: cut once at the best boundary, and so on in each part."""
        if workers == 1:
            return [(begin, end)]
        for level in self.levels:
            inside = level[bisect_right(level, begin) : bisect_left(level, end)]
            smallest, _, at, left = max(
                (self._judge(begin, at, end, left, workers) for at in inside
                 for left in self._lefts(begin, at, end, workers)),
                default=(0, 0, 0, 0),
            )  # fmt: skip
            if smallest >= self.least and len(inside) < end - begin - 1:
                return [*self.cut(begin, at, left), *self.cut(at, end, workers - left)]
        return _cut_evenly(self.ends, begin, end, workers)

    def _lefts(self, begin: int, at: int, end: int, workers: int) -> list[int]:
        """Numbers of workers left of a cut that come nearest to its share of the cores."""
        ends = self.ends
        even = workers * (ends[at] - ends[begin]) // (ends[end] - ends[begin])
        return [left for left in (even, even + 1) if 0 < left < workers]

    def _judge(
        self, begin: int, at: int, end: int, left: int, workers: int
    ) -> tuple[int, int, int, int]:
        """Cores of the smallest group and how far from the middle, then the cut itself."""
        smallest = min(
            _smallest(self.ends, begin, at, left), _smallest(self.ends, at, end, workers - left)
        )
        return smallest, -abs(begin + end - 2 * at), at, left


def _boundaries(tiles: Group, level: Callable[[Tile], Hashable]) -> list[int]:
    return [at for at, (one, next_) in enumerate(pairwise(tiles), 1) if level(one) != level(next_)]


def _filled(tiles: Group, cores: int) -> list[Group]:
    groups: list[Group] = []
    begin = size = 0
    for at, tile in enumerate(tiles, 1):
        size += len(tile.cores)
        if size >= cores:
            groups.append(tiles[begin:at])
            begin, size = at, 0
    return groups


def _smallest(ends: Sequence[int], begin: int, end: int, workers: int) -> int:
    """Cores of the smallest group in the most even cut; 0 if there are fewer tiles than workers."""
    for size in range((ends[end] - ends[begin]) // workers, 0, -1):
        at = begin
        for _ in range(workers):
            at = bisect_left(ends, ends[at] + size, at, end + 1)
            if at > end:
                break
        else:
            return size
    return 0


def _cut_evenly(ends: Sequence[int], begin: int, end: int, workers: int) -> list[tuple[int, int]]:
    """Cut so that the smallest group is as large and then the largest as small as can be."""
    least = _smallest(ends, begin, end, workers)
    most = -(-(ends[end] - ends[begin]) // workers)
    while not (counts := _counts(ends, begin, end, least, most))[begin] >> workers & 1:
        most += 1
    groups = []
    for left in reversed(range(workers)):
        at = max(at for at in _next_cuts(ends, begin, end, least, most) if counts[at] >> left & 1)
        groups.append((begin, at))
        begin = at
    return groups


def _counts(ends: Sequence[int], begin: int, end: int, least: int, most: int) -> dict[int, int]:
    """In how many groups of `least` to `most` cores the tiles from each on can be cut.

    A number of bits: bit n is set if n groups are possible.
    """
    counts = {end: 1}
    for at in reversed(range(begin, end)):
        bits = 0
        for next_ in _next_cuts(ends, at, end, least, most):
            bits |= counts[next_]
        counts[at] = bits << 1
    return counts


def _next_cuts(ends: Sequence[int], at: int, end: int, least: int, most: int) -> range:
    low, high = ends[at] + least, ends[at] + most
    return range(bisect_left(ends, low, at, end + 1), bisect_right(ends, high, at, end + 1))
