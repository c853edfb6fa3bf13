"""Draws the time of each layer: a bar, stacked by direction, update and exposed exchange."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from knltrain.picture import empty_figure, finish, save
from knltrain.profile.roofline import DIRECTIONS

LAYERS: Final = "layers.png"

_MOST: Final = 40
_BAR_INCHES, _LEAST_INCHES = 0.2, 2.5
_BELOW_INCHES, _ABOVE_INCHES = 0.6, 0.4
_UPDATE, _EXPOSED = "update", "exposed exchange"
_COLOURS: Final = {
    **{direction: colour for direction, (colour, _) in DIRECTIONS.items()},
    "mask": "tab:gray",
    _UPDATE: "tab:purple",
    _EXPOSED: "black",
}


def layer_seconds(document: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds of each stage of layers in a step, in their order, by what they go into.

    A stage's update is that of its layers. What is exposed of a part that is exchanged by itself is
    that of its layers, shared out by the bytes of their updates, or evenly where there are none.
    """
    found: dict[str, dict[str, float]] = {}
    stage_of: dict[str, str] = {}
    for stage in document["stages"]:
        if stage["direction"] in _COLOURS and (seconds := stage["seconds"]["mean"]):
            own = found.setdefault(stage["name"], {})
            own[stage["direction"]] = own.get(stage["direction"], 0.0) + seconds
            stage_of.update(dict.fromkeys(stage["layers"], stage["name"]))

    def add(layer: str, what: str, seconds: float) -> None:
        own = found.setdefault(stage_of.get(layer, layer), {})
        own[what] = own.get(what, 0.0) + seconds

    sizes = {}
    for update in document.get("updates", ()):
        sizes[update["layer"]] = update["compulsory_bytes"]
        add(update["layer"], _UPDATE, update["seconds"])
    for part in document["exchanges"]:
        if part["exposed_seconds"] is None:
            continue
        shares = {layer: sizes.get(layer, 1) for layer in part["layers"]}
        for layer, share in shares.items():
            add(layer, _EXPOSED, part["exposed_seconds"] * share / sum(shares.values()))
    return found


def draw_layers(document: Mapping[str, Any], path: Path) -> None:
    """Draw the longest layers, the first one on top; the others are one bar.

    Raises `RunFolderError` when the picture cannot be written.
    """
    found = layer_seconds(document)
    whole = {name: sum(own.values()) for name, own in found.items()}
    kept = set(sorted(whole, key=lambda name: -whole[name])[:_MOST])
    shown = {name: own for name, own in found.items() if name in kept}
    others: dict[str, float] = {}
    for name, own in found.items():
        for what, seconds in own.items() if name not in kept else ():
            others[what] = others.get(what, 0.0) + seconds
    if others:
        shown[f"{len(found) - len(kept)} others"] = others
    height = max(_BELOW_INCHES + _ABOVE_INCHES + _BAR_INCHES * len(shown), _LEAST_INCHES)
    margins = {"bottom": _BELOW_INCHES / height, "top": 1 - _ABOVE_INCHES / height}
    figure = empty_figure(9.0, height, {"left": 0.22, "right": 0.8, **margins})
    axes = figure.subplots()
    places = range(len(shown))
    begins = [0.0] * len(shown)
    for what, colour in _COLOURS.items():
        lengths = [1e3 * own.get(what, 0.0) for own in shown.values()]
        if any(lengths):
            axes.barh(places, lengths, left=begins, color=colour, label=what.replace("_", "-"))
            begins = [begin + more for begin, more in zip(begins, lengths, strict=True)]
    finish(axes)
    axes.set_yticks(places, list(shown), fontsize=7)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("ms in a step")
    axes.set_title(f"{document['network']['name']}: {1e3 * sum(whole.values()):.2f} ms in layers")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8)
    save(figure, path)
