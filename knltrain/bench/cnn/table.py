"""The profiles of several networks as text: what a step is made of, layers, kinds of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from affinity.cli.layout import table
from knltrain.bench.cnn.summary import layer_rows

IN_PLACE: Final = (
    "A concatenation without a row is written in place by the layers before it, and takes no time "
    "of its own."
)

_MOST_LAYERS: Final = 8


def format_table(report: Mapping[str, Any]) -> str:
    """A row for each network and ground, one for its longest layers, and for kinds of operations.

    `report` is that of `knltrain.bench.cnn.benchmark`.
    """
    steps = [
        (
            row["network"],
            row["ground"],
            _number(row["step_seconds"], 1e3, 2),
            _number(row["images_per_second"]),
            *(_number(row[f"{part}_seconds"], 1e3, 2) for part in _PARTS),
            _number(row["hidden_share"], 100, 0),
            _number(row["arithmetic_intensity"]),
            _number(row["communication_intensity"], 1, 0),
        )
        for row in report["rows"]
    ]
    kinds = [
        (
            row["network"],
            row["ground"],
            row["operation"],
            _number(row["seconds"], 1e3, 2),
            _number(row["share"], 100),
            _number(row["gflops"]),
            _number(row["gbytes_per_second"]),
            _number(row["arithmetic_intensity"]),
            _number(row["efficiency"], 100, 0),
        )
        for row in report["kinds"]
    ]
    layers = [cells for row in report["rows"] for cells in _longest_layers(row)]
    failed = [
        f"{row['network']}, {row['ground']}: check failed: {', '.join(row['failed_checks'])}"
        for row in report["rows"]
        if row["failed_checks"]
    ]
    head = (
        f"{report['batch_per_worker']} images a worker, means of {report['steps']} steps, several "
        f"workers by {report['method']}, on {report['machine']['model']}"
    )
    told = (
        head,
        table(_STEP, steps, range(2, 11)),
        f"{table(_LAYER, layers, range(3, 6))}\n{IN_PLACE}",
        table(_KIND, kinds, range(3, 9)),
    )
    return "\n\n".join((*told, *(["\n".join(failed)] if failed else [])))


def _longest_layers(step: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Those that take longest, in the order of the network, and a row for all others."""
    rows = layer_rows(step)
    times = [[row[name] for name in _TIMES] for row in rows]
    order = sorted(range(len(rows)), key=lambda each: -_known(times[each]))
    kept = sorted(order[:_MOST_LAYERS])
    cells = [(rows[each]["layer"], times[each]) for each in kept]
    if rest := order[_MOST_LAYERS:]:
        columns = zip(*(times[each] for each in rest), strict=True)
        others = [None if set(each) == {None} else _known(each) for each in columns]
        cells.append((f"{len(rest)} others", others))
    return [
        (step["network"], step["ground"], name, *(_number(each, 1e3, 2) for each in of))
        for name, of in cells
    ]


def _known(values: Iterable[float | None]) -> float:
    return sum(each for each in values if each is not None)


_PARTS = ("forward", "backward", "update", "exposed")
_STEP = (
    *("network", "on", "step ms", "images/s", *(f"{part} ms" for part in _PARTS)),
    *("hidden %", "FLOP/B", "FLOP/sent B"),
)
_TIMES = ("compute_seconds", "exchange_seconds", "exposed_seconds")
_LAYER = ("network", "on", "layer", "computes ms", "exchange ms", "exposed ms")
_KIND = (
    *("network", "on", "operation", "ms", "%", "GFLOP/s", "GB/s", "FLOP/B"),
    "of bound %",
)


def _number(value: float | None, factor: float = 1, digits: int = 1) -> str:
    return "" if value is None else f"{factor * value:.{digits}f}"
