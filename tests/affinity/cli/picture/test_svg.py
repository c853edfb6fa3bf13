from __future__ import annotations

from xml.etree import ElementTree

from affinity.cli.picture.blocks import Block, Rectangle, Words
from affinity.cli.picture.svg import to_svg

_SVG = "{http://www.w3.org/2000/svg}"


def test_shapes_become_elements_with_short_numbers() -> None:
    shapes = (
        Rectangle(1, 2.25, 30, 4, "#ffffff", "#000000", radius=3, told="core 1"),
        Words(5, 6, "cpus 0-3", 11, centred=True, bold=True),
    )
    root = ElementTree.fromstring(to_svg(Block(40, 10.5, shapes)).encode())
    assert (root.get("width"), root.get("height")) == ("40", "10.5")
    rectangle, text = root
    assert rectangle.tag == f"{_SVG}rect"
    sizes = {"x": "1", "y": "2.2", "width": "30", "height": "4", "rx": "3"}
    assert rectangle.attrib == {**sizes, "fill": "#ffffff", "stroke": "#000000"}
    assert rectangle.findtext(f"{_SVG}title") == "core 1"
    assert (text.text, text.get("text-anchor"), text.get("font-weight")) == (
        "cpus 0-3",
        "middle",
        "600",
    )


def test_names_with_special_letters_stay_valid() -> None:
    name = 'Xeon <"Max"> & co'
    block = Block(9, 9, (Words(0, 0, name, 9), Rectangle(0, 0, 1, 1, "#000000", told=name)))
    root = ElementTree.fromstring(to_svg(block).encode())
    assert root[0].text == name
    assert root[1][0].text == name
