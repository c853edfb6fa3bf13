"""The profile as CSV, long and flat: a line for each rank and stage, part, update and exchange."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

from knltrain.profile.measured import EXCHANGED, STATISTICS

CSV: Final = "profile.csv"

_FACTS: Final = (
    *("place", "name", "layers", "class", "direction", "algorithm", "calls", "flops"),
    *("executed_flops", "compulsory_bytes", "layout_bytes"),
    *("packed_bytes", "wire_bytes", "exchanged_bytes"),
    *("intensity", "communication_intensity", "flops_per_second", "share_of_sgemm"),
    *("bytes_per_second", "share_of_copy", "bound", "bound_seconds", "efficiency"),
)
_SECONDS: Final = {
    **{f"{name}_seconds": f"{name}_s" for name in EXCHANGED},
    **{name: f"{name}_s" for name in STATISTICS},
}
"""Columns of seconds by their keys."""

_HEAD: Final = ("record", "rank", *_FACTS, "rank_mean_s", *_SECONDS.values(), "rank_spread")


def as_csv(document: Mapping[str, Any]) -> str:
    """All ranks' records; what was not measured is empty.

    `record` is stage, part, update or exchange. `layers` are parted by spaces. `rank_spread` is the
    slowest rank's mean less the fastest one's, over the mean. A line of all ranks has no rank.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, _HEAD, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rows(document))
    return file.getvalue()


def _rows(document: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    for stage in document["stages"]:
        yield from _of_ranks("stage", stage, stage["seconds"], stage["by_rank"])
    classes = [rank.get("classes", {}) for rank in document["ranks"]]
    for part in document["parts"]:
        means = [each[part["name"]] for each in classes if part["name"] in each]
        yield from _of_ranks("part", part, {"mean": part["seconds"]}, means or None)
    for update in document.get("updates", ()):
        named = {**update, "name": update["layer"], "layers": [update["layer"]]}
        yield _row("update", named, {"mean": update["seconds"]})
    for part in document["exchanges"]:
        yield _row("exchange", part, part)


def _of_ranks(
    record: str,
    found: Mapping[str, Any],
    seconds: Mapping[str, Any],
    means: list[float | None] | None,
) -> Iterator[dict[str, object]]:
    row = _row(record, found, seconds)
    if means is None:
        yield row
        return
    known = [each for each in means if each is not None]
    if len(known) > 1 and seconds["mean"]:
        row["rank_spread"] = (max(known) - min(known)) / seconds["mean"]
    for rank, mean in enumerate(means):
        yield {**row, "rank": rank, "rank_mean_s": mean}


def _row(record: str, found: Mapping[str, Any], seconds: Mapping[str, Any]) -> dict[str, object]:
    facts = {name: found.get(name) for name in _FACTS}
    times = {column: seconds.get(key) for key, column in _SECONDS.items()}
    return {"record": record, **facts, **times, "layers": " ".join(found.get("layers", ()))}
