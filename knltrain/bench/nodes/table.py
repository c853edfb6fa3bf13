"""The report of `knltrain bench nodes` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns
from knltrain.bench.exchange.table import cores_each

_HEAD = (
    "", "images/s", "of one host", "hidden", "computing", "communication", "rounds"
)  # fmt: skip


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each training."""
    machine = report["machine"]
    bounds = [
        f"{machine[when]['sgemm_gflops']:.0f} GFLOP/s, "
        f"{machine[when]['copy_gbytes_per_second']:.1f} GB/s {when}"
        for when in ("before", "after")
    ]
    lines = [
        f"{report['network']}, {report['nodes']} workers with {_cores(report)}, batch "
        f"{report['batch_per_worker']} per worker, on one host or on {report['nodes']} (network "
        f"namespaces of one machine); {_link(report)}; medians of {report['rounds']} alternating "
        f"rounds of {report['steps']} steps",
        f"{machine['model']}: sgemm and copy {'; '.join(bounds)}",
        "",
        *columns([_HEAD, *map(_cells, report["rows"])], right=range(1, len(_HEAD) - 1)),
    ]
    lines += ["", *_ratio(report)]
    lines += [f"{row['name']}: {row['what']}" for row in report["rows"]]
    return "\n".join(lines)


def _cores(report: Mapping[str, Any]) -> str:
    shared = report["workers_per_core"]
    return f"{cores_each(report)} each" + (f", {shared} on the same" if shared > 1 else "")


def _link(report: Mapping[str, Any]) -> str:
    late = report["link_latency_us"]
    return (
        f"{report['link_gbits']:g} Gbit/s{f' and {late:g} µs later' if late else ''}, of which TCP "
        f"carries {8 * report['link_gbytes_per_second']:.2f}"
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    computing, communication = row["computing_seconds"], row["communication_seconds"]
    known = communication is not None
    return (
        row["name"],
        f"{row['images_per_second']:.2f}",
        "" if row["efficiency"] is None else f"{row['efficiency']:.3f}",
        _percent(row["hidden"]),
        f"{1e3 * computing:.1f} ms" if known else "",
        f"{1e3 * communication:.1f} ms, {row['communication_share']:.1%}" if known else "",
        ", ".join(f"{each:.2f}" for each in row["efficiencies"]),
    )


def _ratio(report: Mapping[str, Any]) -> list[str]:
    ratio = report["star_by_seasgd"]
    if ratio is None:
        return []
    rounds = ", ".join(f"{each:.2f}" for each in ratio["of_rounds"])
    return [
        f"communication of a step, waiting included: star's is {ratio['median']:.2f} times that of "
        f"seasgd ({rounds})",
        "",
    ]
