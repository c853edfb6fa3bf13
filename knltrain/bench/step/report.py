"""Results of `knltrain bench step`: a row for each contestant, and a table."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from affinity.cli.layout import columns
from knltrain.bench.step.peers import OTHERS

SHARES = {
    "sgemm_gflops": "share_of_sgemm_peak",
    "bfloat16_gemm_gflops": "share_of_bfloat16_gemm_peak",
}
"""By bound: what a row calls its share. The table has that of bfloat16 where it is measured."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """By contestant, ours first: its report, images per second of each round, peak memory in bytes.

    `bounds` has the machine's own speeds, round by round, too.
    """

    ready: Mapping[str, Mapping[str, Any]]
    rates: Mapping[str, Sequence[float]]
    peak_bytes: Mapping[str, int]
    bounds: Mapping[str, Sequence[float]]

    @property
    def ours(self) -> str:
        """The name of the first."""
        return next(iter(self.rates))


def rows(measured: Measurement, flops: int) -> list[dict[str, Any]]:
    """A row per contestant; `flops` are those of direct convolution, for one image's training.

    Shares and ratios are taken within each round, since clock rate and load are the same throughout
    it. The medians of these are not quite the quotients of the medians shown.
    """
    return [_row(name, measured, flops) for name in measured.rates]


def _row(name: str, measured: Measurement, flops: int) -> dict[str, Any]:
    rates, ours = measured.rates, measured.ours
    peaks = {
        each: ready.get("device_bytes", measured.peak_bytes[each])
        for each, ready in measured.ready.items()
    }
    own, ready = rates[name], measured.ready[name]
    return {
        "implementation": name,
        "version": ready["version"],
        "images_per_second": statistics.median(own),
        **{
            share: _ratio(own, measured.bounds[bound]) * flops / 1e9
            for bound, share in SHARES.items()
            if bound in measured.bounds
        },
        "faster_than": {other: _ratio(own, rates[other]) for other in rates if other != name},
        "ours_to_it": _ratio(rates[ours], own),
        "peak_bytes": peaks[name],
        "our_peak_to_its": peaks[ours] / peaks[name],
        "first_loss": ready["loss"],
        "rounds": own,
    }


def best_peer(measured: Measurement) -> dict[str, Any] | None:
    """Ours divided by the fastest other implementation in each round; None where there is none.

    `ours_to_it` is the median of these ratios; `rounds` names the fastest of each.
    """
    others = [name for name in measured.rates if name in OTHERS]
    if not others:
        return None
    of_rounds = [
        max(zip(round_rates, others, strict=True))
        for round_rates in zip(*(measured.rates[name] for name in others), strict=True)
    ]
    return {
        "ours_to_it": _ratio(measured.rates[measured.ours], [rate for rate, _ in of_rounds]),
        "rounds": [name for _, name in of_rounds],
    }


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    share = f"of {_product(report)}"
    head = ("", "images/s", share, "ours to it", "peak GiB", "ours to its", "first loss", "version")
    lines = [
        f"{'evaluation of ' * report['evaluates']}{report['network']}, batch {report['batch']}, "
        f"{_crew(report)} on "
        f"{_place(report)}, medians of {report['rounds']} alternating rounds",
        f"{_products(report)} GFLOP/s, copy {report['copy_gbytes_per_second']:.1f} GB/s "
        "(read and written)",
        "",
        *columns([head, *map(_cells, report["rows"])], right=range(1, len(head) - 1)),
    ]
    if report["losses_agree"] is None:
        lines.append("dropout draws differently in each: their first losses cannot agree")
    if report["best_peer"] is not None:
        lines.append(_best_line(report["best_peer"]))
    return "\n".join(lines)


def _products(report: Mapping[str, Any]) -> str:
    """The machine's products of matrices, and in bfloat16 our convolution, with their GFLOP/s."""
    named = {"sgemm_gflops": _product(report)}
    if "bfloat16_gemm_gflops" in report:
        named = {
            "sgemm_gflops": "sgemm",
            "bfloat16_gemm_gflops": _product(report),
            "bfloat16_convolution_gflops": "our bfloat16 convolution",
        }
    return ", ".join(f"{name} {report[bound]:,.0f}" for bound, name in named.items())


def _product(report: Mapping[str, Any]) -> str:
    """What the machine's product of matrices is called."""
    precision = report["precision"]
    return "sgemm" if precision == "float32" else f"{precision} gemm"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate = row["images_per_second"]
    return (
        row["implementation"],
        f"{rate:,.{0 if rate >= 100 else 2}f}",
        f"{row.get('share_of_bfloat16_gemm_peak', row['share_of_sgemm_peak']):.2f}",
        f"{row['ours_to_it']:.2f}x",
        f"{row['peak_bytes'] / 2**30:.2f}",
        f"{row['our_peak_to_its']:.2f}x",
        f"{row['first_loss']:.6f}",
        row["version"],
    )


def _best_line(best: Mapping[str, Any]) -> str:
    won = Counter(best["rounds"])
    names = ", ".join(f"{name} in {count}" for name, count in won.most_common())
    return f"ours to the fastest peer of each round: {best['ours_to_it']:.2f}x ({names})"


def _crew(report: Mapping[str, Any]) -> str:
    each = f"{report['threads']} threads"
    return each if report["workers"] == 1 else f"{report['workers']} workers with {each} in all"


def _place(report: Mapping[str, Any]) -> str:
    """The processor, or the device with it."""
    model, device = report["machine"]["model"], report["device"]
    return f"{model}, {device['device']} {device.get('model', '')}".rstrip() if device else model


def _ratio(values: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, others, strict=True))
