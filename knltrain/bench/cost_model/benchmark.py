"""`knltrain bench cost-model`: predicted seconds of exchanges; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from affinity.cli.layout import table
from knltrain.cost_model.line import Link
from knltrain.cost_model.predicted import EXCHANGES, predicted
from knltrain.cost_model.validation import validated
from knltrain.errors import ConfigError
from knltrain.network.zoo.networks import network_named


def run_cost_model(
    network: str, ranks: Sequence[int], latency_us: float, gbytes_per_second: float
) -> dict[str, Any]:
    """The report, as JSON: `predicted` rows of a network, and what `validated` returns.

    Each message takes `latency_us` microseconds and its bytes over `gbytes_per_second`; sums are
    for nothing. Raises ConfigError for fewer ranks than one and for an unknown network.
    """
    if not ranks or min(ranks) < 1:
        raise ConfigError(f"--ranks {','.join(map(str, ranks))}: expected 1 or more")
    size = 4 * network_named(network).packed_size
    link = Link(1e-6 * latency_us, 1e-9 / gbytes_per_second)
    return {
        "network": network,
        "parameter_bytes": size,
        "latency_us": latency_us,
        "gbytes_per_second": gbytes_per_second,
        "predicted": predicted(link, size, ranks),
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
