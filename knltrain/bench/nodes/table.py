"""The report of `knltrain bench nodes` as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knltrain.bench.exchange.table import cores_each


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each training."""
    machine = report["machine"]
    bounds = [
        f"{machine[when]['sgemm_gflops']:.0f} GFLOP/s, "
        f"{machine[when]['copy_gbytes_per_second']:.1f} GB/s {when}"
        for when in ("before", "after")
    ]
    lines = [
        f"{report['network']}, {report['nodes']} workers with {cores_each(report)} each, batch "
        f"{report['batch_per_worker']} per worker, on one host or on {report['nodes']} (network "
        f"namespaces of one machine); {report['link_gbits']:g} Gbit/s, of which TCP carries "
        f"{8 * report['link_gbytes_per_second']:.2f}; medians of {report['rounds']} alternating "
        f"rounds of {report['steps']} steps",
        f"{machine['model']}: sgemm and copy {'; '.join(bounds)}",
        "",
        f"{'':<14}{'images/s':>10}{'of one host':>14}{'hidden':>9}   rounds",
    ]
    for row in report["rows"]:
        share = "" if row["efficiency"] is None else f"{row['efficiency']:.3f}"
        rounds = ", ".join(f"{each:.2f}" for each in row["efficiencies"])
        hidden = "" if row["hidden"] is None else f"{row['hidden']:.0%}"
        rate = f"{row['images_per_second']:>10.2f}"
        lines.append(f"{row['name']:<14}{rate}{share:>14}{hidden:>9}   {rounds}".rstrip())
    lines += ["", *(f"{row['name']}: {row['what']}" for row in report["rows"])]
    return "\n".join(lines)
