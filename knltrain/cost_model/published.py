"""Measurements that others have published, by which the model is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

KNL_ALL_REDUCE: Final[dict[tuple[int, int], float]] = {
    (round(size * 1e6), ranks): milliseconds / 1e3
    for size, row in {
        12.4: (1.33, 1.85, 2.26, 3.23, 3.88),
        26.0: (2.35, 3.33, 3.88, 6.29, 7.54),
        67.0: (5.4, 7.5, 8.7, 14.7, 19.0),
        153.0: (29.8, 35.5, 38.3, 48.6, 54.6),
        258.0: (37.7, 47.5, 54.7, 66.1, 76.7),
    }.items()
    for ranks, milliseconds in zip((2, 4, 8, 16, 32), row, strict=True)
}
"""Seconds of an all-reduce by (bytes, nodes): Xeon Phi 7250F, Omni-Path, one process a node, MLSL.

Baidu Research, DeepBench, results/train/DeepBench_IA_KNL7250.xlsx (Apache-2.0), rounded.
"""

SC17_NODES: Final = (1, 2, 4, 8, 16, 32, 64)


@final
@dataclass(frozen=True, slots=True)
class WeakScaling:
    """Seconds of an iteration by `SC17_NODES`, and the bytes of the network's parameters."""

    network: str
    parameter_bytes: int
    seconds: tuple[float, ...]


SC17_ROWS: Final = (
    WeakScaling("vgg-19", 574_668_960, (16.475, 18.000, 18.525, 19.050, 20.425, 20.988, 20.525)),
    WeakScaling("googlenet", 53_513_120, (5.110, 5.300, 5.360, 5.470, 5.433, 5.540, 5.580)),
)
"""You, Buluç, Demmel, SC17, weak scaling on Xeon Phi (Cori). The rows were not verified in print:
they agree with the 91.5 % of the abstract."""
