"""Draws the roofline: a bar for each stage and direction, under the machine's ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from knltrain.picture import empty_figure, save

ROOFLINE: Final = "roofline.png"

DIRECTIONS: Final = {
    "forward": ("tab:blue", "o"),
    "backward_data": ("tab:orange", "s"),
    "backward_weights": ("tab:green", "^"),
    "backward": ("tab:red", "D"),
}
"""Colours and marks."""

_MARGINS: Final = {"left": 0.1, "right": 0.97, "bottom": 0.1, "top": 0.92}
_DRAWN: Final = {
    **DIRECTIONS,
    "loss": ("tab:brown", "v"),
    "update": ("tab:purple", "P"),
    "exchange": ("black", "X"),
}


class Dot(NamedTuple):
    """What is drawn of a stage in a direction, of the update, or of an exchange."""

    direction: str
    intensities: tuple[float, ...]
    """Operations per compulsory byte and per byte of the layout; of an exchange per byte sent."""
    flops_per_second: float
    seconds: float


def dots(document: Mapping[str, Any]) -> Iterator[Dot]:
    """All that operations are known of; of an exchange those of computing its layers."""
    for stage in document["stages"]:
        flops = stage["executed_flops"] or stage["flops"]
        seconds = stage["seconds"]["mean"]
        if stage["direction"] in _DRAWN and flops and seconds:
            moved = [stage["compulsory_bytes"], stage["layout_bytes"]]
            intensities = tuple(flops / each for each in moved if each)
            yield Dot(stage["direction"], intensities, flops / seconds, seconds)
    for part in document["parts"]:
        if part["name"] == "update" and part.get("flops_per_second"):
            rate = part["flops_per_second"]
            yield Dot("update", (part["intensity"],), rate, part["seconds"])
    for part in document["exchanges"]:
        intensity, seconds = part["communication_intensity"], part["moving_seconds"]
        if intensity and seconds and document["machine"][0].get("link_bytes_per_second"):
            rate = intensity * part["wire_bytes"] / seconds
            yield Dot("exchange", (intensity,), rate, seconds)


def ceilings(machine: Sequence[Mapping[str, Any]]) -> tuple[float, float, float | None]:
    """Means over the workers: operations of products, and bytes of copies, per second; the link.

    That is None where no node sends anything.
    """
    peaks = [
        each.get("product_flops_per_second", each["sgemm_flops_per_second"]) for each in machine
    ]
    copies = [each["copy_bytes_per_second"] for each in machine]
    link = machine[0].get("link_bytes_per_second")
    return sum(peaks) / len(peaks), sum(copies) / len(copies), link


def draw_roofline(document: Mapping[str, Any], path: Path) -> None:
    """Draw stages by what they execute, means over workers; marks grow with their time.

    A bar leads from the intensity by compulsory bytes to that by bytes of the layout. Exchanges
    between nodes have a ceiling of their own, the link, over operations per byte sent. Raises
    `RunFolderError` when the picture cannot be written.
    """
    figure = empty_figure(8.0, 5.5, _MARGINS)
    axes = figure.subplots()
    peak, copy, link = ceilings(_like_first(document))
    step, drawn = document["step_seconds"]["mean"], list(dots(document))
    for direction, (colour, marker) in _DRAWN.items():
        named = direction.replace("_", "-")
        for dot in (each for each in drawn if each.direction == direction):
            ends, rate = dot.intensities, dot.flops_per_second / 1e9
            axes.plot(ends, [rate] * len(ends), color=colour, linewidth=1, alpha=0.6)
            size = 12 + 600 * dot.seconds / step
            axes.scatter(
                ends[-1:], [rate], s=size, color=colour, marker=marker, alpha=0.6, label=named
            )
            named = "_"
    said = f"{peak / 1e9:.0f} GFLOP/s, {copy / 1e9:.0f} GB/s"
    computed = [each for each in drawn if each.direction != "exchange"]
    _draw_ceiling(axes, computed, copy, peak, "-")
    if sent := [each for each in drawn if each.direction == "exchange"]:
        assert link is not None
        _draw_ceiling(axes, sent, link, None, "--")
        said += f", link {link / 1e9:.2f} GB/s (dashed, per byte sent)"
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{document['network']['name']}: {said}")
    axes.legend(loc="lower right")
    save(figure, path)


def _like_first(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The machines of the workers that stages are means of."""
    by_rank = document["stages"][0]["by_rank"] or document["machine"]
    pairs = zip(document["machine"], by_rank, strict=True)
    return [machine for machine, mean in pairs if mean is not None]


def _draw_ceiling(
    axes: Any, under: Sequence[Dot], rate: float, peak: float | None, line: str
) -> None:
    """Draw a bandwidth as far as dots go, up to the peak of computing if it has one."""
    places = [each for dot in under for each in dot.intensities]
    if peak is not None:
        places.append(peak / rate)
    edges = sorted({min(places) / 2, max(places) * 2, *([peak / rate] if peak else [])})
    heights = [rate * each if peak is None else min(peak, rate * each) for each in edges]
    axes.plot(edges, [each / 1e9 for each in heights], color="black", linestyle=line)
