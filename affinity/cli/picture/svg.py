"""Writes a picture as SVG: text that every browser shows at any size."""

from __future__ import annotations

from html import escape

from affinity.cli.picture.blocks import Block, Rectangle, Shape, Words

_FONT = "ui-sans-serif, system-ui, Helvetica, Arial, sans-serif"


def to_svg(block: Block) -> str:
    """The block as an SVG file."""
    width, height = _number(block.width), _number(block.height)
    return "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="{_FONT}">',
            *map(_element, block.shapes),
            "</svg>\n",
        )
    )


def _element(shape: Shape) -> str:
    return _rectangle(shape) if isinstance(shape, Rectangle) else _text(shape)


def _rectangle(shape: Rectangle) -> str:
    numbers = {
        "x": shape.x,
        "y": shape.y,
        "width": shape.width,
        "height": shape.height,
        "rx": shape.radius,
    }
    sizes = " ".join(f'{name}="{_number(value)}"' for name, value in numbers.items() if value)
    stroke = f' stroke="{shape.stroke}"' if shape.stroke != "none" else ""
    element = f'<rect {sizes} fill="{shape.fill}"{stroke}'
    return f"{element}><title>{escape(shape.told)}</title></rect>" if shape.told else f"{element}/>"


def _text(shape: Words) -> str:
    options = ' text-anchor="middle"' if shape.centred else ""
    options += ' font-weight="600"' if shape.bold else ""
    return (
        f'<text x="{_number(shape.x)}" y="{_number(shape.y)}" font-size="{_number(shape.size)}" '
        f'fill="{shape.colour}"{options}>{escape(shape.text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
