"""The profile as CSV: a line for each rank and stage."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

CSV: Final = "profile.csv"

_OF_STAGE: Final = (
    "place",
    "name",
    "class",
    "direction",
    "algorithm",
    "calls",
    "flops",
    "executed_flops",
    "compulsory_bytes",
    "layout_bytes",
    "intensity",
    "bound",
    "bound_seconds",
    "efficiency",
)
_HEAD: Final = ("rank", *_OF_STAGE, "rank_mean_s", "mean_s", "median_s", "p05_s", "p95_s", "max_s")


def as_csv(document: Mapping[str, Any]) -> str:
    """All ranks' stages, long and flat; what was not measured is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_HEAD)
    writer.writerows(_rows(document))
    return file.getvalue()


def _rows(document: Mapping[str, Any]) -> Iterator[list[object]]:
    for stage in document["stages"]:
        for rank, mean in enumerate(stage["by_rank"] or [None]):
            facts = (stage[name] for name in _OF_STAGE)
            yield [rank, *facts, mean, *stage["seconds"].values()]
