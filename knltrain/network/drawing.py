"""A network's graph as a picture (SVG): a box for each layer, with what follows it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from knltrain.network.layers import (
    IMAGES,
    Addition,
    Concatenation,
    Convolution,
    Dense,
    Layer,
    Pooling,
)
from knltrain.network.network import Network

_WIDTH: Final = 250
_LINE: Final = 15
_GAP_X: Final = 30
_GAP_Y: Final = 26
_MARGIN: Final = 20
_COLOURS: Final = {
    Convolution: "#d6e4f5",
    Dense: "#d6e4f5",
    Pooling: "#fbe3d3",
    Addition: "#e3f1dd",
    Concatenation: "#e3f1dd",
}
_PLAIN: Final = "#efefef"


@dataclass(slots=True)
class _Box:
    layers: list[Layer]
    sources: tuple[int, ...]
    level: int
    column: float = 0.0
    top: int = 0

    @property
    def height(self) -> int:
        return _LINE * (len(self.layers) + 1) + 8


def network_to_svg(network: Network) -> str:
    """A picture of the network, from its input at the top to its outputs at the bottom."""
    boxes = _boxes(network)
    levels = _levels(boxes)
    columns = max(len(level) for level in levels)
    top = _MARGIN + 2 * _LINE
    for level in levels:
        for box in level:
            box.top = top
        top += max(box.height for box in level) + _GAP_Y
    width = 2 * _MARGIN + columns * (_WIDTH + _GAP_X)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" '
        f'viewBox="0 0 {width} {top}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{top}" fill="white"/>',
        f'<text x="{width / 2:.0f}" y="{_MARGIN + _LINE}" text-anchor="middle" '
        f'font-weight="bold" font-size="14">{escape(_title(network))}</text>',
    ]
    parts += [edge for box in boxes for edge in _edges(box, boxes, width)]
    parts += [part for box in boxes for part in _drawn(box, network, width)]
    return "\n".join([*parts, "</svg>", ""])


def _title(network: Network) -> str:
    sizes = "x".join(map(str, network.input_shape))
    return (
        f"{network.name}: images {sizes}, {network.parameter_count:,} parameters, "
        f"{network.flops_per_image / 2e6:,.0f} million multiply-adds"
    )


def _boxes(network: Network) -> list[_Box]:
    """The boxes, each behind those that it takes from."""
    boxes: list[_Box] = []
    place: dict[str, int] = {}
    for layer in network.layers:
        inputs = network.inputs_of(layer)
        before = inputs[0]
        if before in place and _follows(layer, network):
            place[layer.name] = place[before]
            boxes[place[before]].layers.append(layer)
            continue
        sources = tuple(place[name] for name in inputs if name != IMAGES)
        level = 1 + max((boxes[source].level for source in sources), default=-1)
        place[layer.name] = len(boxes)
        boxes.append(_Box([layer], sources, level))
    return boxes


def _follows(layer: Layer, network: Network) -> bool:
    """Whether it stands in the box of its input: it alone takes that, and keeps the shape."""
    inputs = network.inputs_of(layer)
    moves_windows = isinstance(layer, Convolution | Dense | Pooling)
    keeps = network.shape_of(layer.name) == network.shape_of(inputs[0])
    alone = len(inputs) == 1 and network.consumers(inputs[0]) == (layer.name,)
    return keeps and alone and not moves_windows


def _levels(boxes: Sequence[_Box]) -> list[list[_Box]]:
    """The boxes by level; those of a level stand side by side, below what they take from."""
    levels: list[list[_Box]] = [[] for _ in range(1 + max(box.level for box in boxes))]
    for box in boxes:
        levels[box.level].append(box)
    for level in levels:
        level.sort(key=lambda box: _wanted_column(box, boxes))
        for number, box in enumerate(level):
            box.column = number - (len(level) - 1) / 2
    return levels


def _wanted_column(box: _Box, boxes: Sequence[_Box]) -> float:
    columns = [boxes[source].column for source in box.sources]
    return sum(columns) / len(columns) if columns else 0.0


def _middle(box: _Box, width: int) -> float:
    return width / 2 + box.column * (_WIDTH + _GAP_X)


def _edges(box: _Box, boxes: Sequence[_Box], width: int) -> Iterator[str]:
    for source in box.sources:
        above = boxes[source]
        x, y = _middle(above, width), above.top + above.height
        to_x, to_y = _middle(box, width), box.top
        aside = 0.0
        if box.level > above.level + 1 and abs(to_x - x) < 1:  # around what stands between
            aside = _WIDTH / 2 + _GAP_X / 2
        bend = _GAP_Y
        yield (
            f'<path d="M{x:.0f} {y} C{x + aside:.0f} {y + bend} {to_x + aside:.0f} '
            f'{to_y - bend} {to_x:.0f} {to_y}" fill="none" stroke="#777" stroke-width="1.2"/>'
        )


def _drawn(box: _Box, network: Network, width: int) -> Iterator[str]:
    left = _middle(box, width) - _WIDTH / 2
    colour = next(
        (found for kind, found in _COLOURS.items() if isinstance(box.layers[0], kind)), _PLAIN
    )
    yield (
        f'<rect x="{left:.0f}" y="{box.top}" width="{_WIDTH}" height="{box.height}" rx="4" '
        f'fill="{colour}" stroke="#999"/>'
    )
    shape = "x".join(map(str, network.shape_of(box.layers[-1].name)))
    lines = [*(f"{layer.name}  {_told(layer)}" for layer in box.layers), shape]
    for number, line in enumerate(lines, start=1):
        weight = ' font-weight="bold"' if number == 1 else ""
        yield (
            f'<text x="{left + 8:.0f}" y="{box.top + _LINE * number:.0f}"{weight}>'
            f"{escape(line)}</text>"
        )


def _told(layer: Layer) -> str:
    if isinstance(layer, Convolution | Pooling):
        window = layer.window
        sides = "x".join(map(str, window.kernel))
        stride = "" if window.stride == (1, 1) else f"/{'x'.join(map(str, window.stride))}"
        filters = f", {layer.filters}" if isinstance(layer, Convolution) else ""
        groups = getattr(layer, "groups", 1)
        kind = "" if isinstance(layer, Convolution) else f"{type(layer).__name__} "
        return f"{kind}{sides}{stride}{filters}" + (f", {groups} groups" if groups > 1 else "")
    units = f" {layer.units}" if isinstance(layer, Dense) else ""
    return f"{type(layer).__name__}{units}"
