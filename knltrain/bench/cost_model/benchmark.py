"""`knltrain bench cost-model`: predicted seconds of exchanges; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from affinity.cli.layout import table
from knltrain.bench.cost_model.all_reduces import all_reduce_named
from knltrain.bench.cost_model.steps import Ground, predicted_method_steps
from knltrain.cost_model.line import Link
from knltrain.cost_model.predicted import EXCHANGES, predicted
from knltrain.cost_model.validation import validated
from knltrain.errors import ConfigError
from knltrain.network.zoo.networks import network_named


def run_cost_model(
    network: str,
    ranks: Sequence[int],
    latency_us: float,
    gbytes_per_second: float,
    *,
    methods: Sequence[str] = (),
    computing_ms: float = 100.0,
    all_reduce: str = "ring",
    servers: int | None = None,
) -> dict[str, Any]:
    """The report, as JSON: `predicted` rows of a network, and what `validated` returns.

    Each message takes `latency_us` microseconds and its bytes over `gbytes_per_second`; sums are
    for nothing. `steps` are those of `methods` with so much computing, after
    `knltrain.bench.cost_model.steps`: with the `all_reduce` of a name or a file, and centers on so
    many `servers`, or on all ranks where these are fewer, and for None. `failures` are methods that
    have none, with the reasons. Raises ConfigError for fewer ranks than one, for more servers than
    ranks, for unknown names and for a bad file.
    """
    if not ranks or min(ranks) < 1:
        raise ConfigError(f"--ranks {','.join(map(str, ranks))}: expected 1 or more")
    if servers is not None and servers > max(ranks):
        raise ConfigError(f"--servers {servers}: expected at most the most --ranks, {max(ranks)}")
    size = 4 * network_named(network).packed_size
    link = Link(1e-6 * latency_us, 1e-9 / gbytes_per_second)
    steps: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    if methods:
        ground = Ground(link, all_reduce_named(all_reduce, link), servers)
        computing = 1e-3 * computing_ms
        steps, failures = predicted_method_steps(network, methods, ranks, computing, ground)
    return {
        "network": network,
        "parameter_bytes": size,
        "latency_us": latency_us,
        "gbytes_per_second": gbytes_per_second,
        "predicted": predicted(link, size, ranks),
        "computing_ms": computing_ms,
        "all_reduce_of_steps": all_reduce,
        "servers": servers,
        "steps": steps,
        "failures": failures,
        **validated(),
    }


def format_report(report: Mapping[str, Any]) -> str:
    """The report as text."""
    size = report["parameter_bytes"] / 1e6
    return "\n\n".join(
        (
            f"{report['network']}, {size:.1f} MB over links of {report['latency_us']:g} us and "
            f"{report['gbytes_per_second']:g} GB/s, predicted milliseconds\n"
            + table(
                ("ranks", *EXCHANGES),
                [
                    (str(row["ranks"]), *(f"{1e3 * each:,.2f}" for each in row["seconds"].values()))
                    for row in report["predicted"]
                ],
                right=range(len(EXCHANGES) + 1),
            ),
            *_steps(report),
            "all-reduce on Xeon Phi (DeepBench), from a table of 2 to 8 nodes\n"
            + table(
                ("MB", "nodes", "predicted ms", "measured ms", "error %"),
                [
                    (
                        f"{row['bytes'] / 1e6:.1f}",
                        str(row["ranks"]),
                        f"{1e3 * row['predicted_seconds']:.2f}",
                        f"{1e3 * row['measured_seconds']:.2f}",
                        f"{100 * row['error']:+.1f}",
                    )
                    for row in report["all_reduce"]
                ],
                right=range(5),
            )
            + f"\nmedian error {100 * report['median_error']:.1f} %, "
            f"largest {100 * report['largest_error']:.1f} %",
            "weak scaling on Xeon Phi (SC17, rows not verified), a tree of "
            f"{report['tree_gbytes_per_second']:.2f} GB/s, fitted to vgg-19\n"
            + table(
                ("network", "nodes", "predicted %", "measured %", "error, points"),
                [
                    (
                        row["network"],
                        str(row["nodes"]),
                        f"{100 * row['predicted_efficiency']:.1f}",
                        f"{100 * row['measured_efficiency']:.1f}",
                        f"{100 * row['error']:+.1f}",
                    )
                    for row in report["weak_scaling"]
                ],
                right=range(1, 5),
            )
            + "\nlargest error of googlenet "
            f"{100 * report['largest_error_of_efficiency']:.1f} points",
        )
    )


def _steps(report: Mapping[str, Any]) -> list[str]:
    """A line for each method, a column for each number of ranks."""
    rows, servers = report["steps"], report["servers"]
    by_method: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        by_method.setdefault(row["method"], {})[row["ranks"]] = row
    ranks = list(dict.fromkeys(row["ranks"] for row in rows))
    lines = [
        (
            name,
            found[max(found)]["formula"],
            *(
                f"{1e3 * found[each]['step_seconds']:,.2f}" if each in found else ""
                for each in ranks
            ),
        )
        for name, found in by_method.items()
    ]
    if not rows:
        return []
    on = "all" if servers is None else str(servers)
    on += ", or all of fewer" if servers is not None and servers > min(ranks) else ""
    told = [
        f"a step of each method with {report['computing_ms']:g} ms of computing, all-reduces by "
        f"{report['all_reduce_of_steps']}, servers of centers: {on}; predicted milliseconds",
        table(("method", "exchange", *map(str, ranks)), lines, right=range(2, len(ranks) + 2)),
        *(f"{name} has none: {reason}" for name, reason in report["failures"].items()),
    ]
    return ["\n".join(told)]
