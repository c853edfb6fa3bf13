from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from knltrain.network.drawing import network_to_svg
from knltrain.network.layers import Addition, Convolution, Dense, ReLU
from knltrain.network.network import Network
from knltrain.network.zoo.networks import NETWORKS

SVG = "{http://www.w3.org/2000/svg}"


def _parts(network: Network, kind: str) -> list[ET.Element]:
    return ET.fromstring(network_to_svg(network)).findall(f"{SVG}{kind}")


def _diamond() -> Network:
    layers = (
        Convolution("a", 2, 3, padding=1),
        ReLU("follows"),
        Convolution("left", 2, 3, padding=1),
        Convolution("right", 2, (1, 3), (1, 1), (0, 1), inputs=("follows",)),
        Addition("sum", inputs=("left", "right")),
        Dense("fc", 3),
    )
    return Network("diamond", (8, 8, 1), layers)


def test_a_box_has_what_follows_a_layer_alone() -> None:
    boxes = _parts(_diamond(), "rect")[1:]  # behind the background
    assert len(boxes) == 5
    heights = [int(box.attrib["height"]) for box in boxes]
    assert heights[0] > heights[1]


def test_branches_stand_side_by_side_and_their_sum_below() -> None:
    _, left, right, added, _ = _parts(_diamond(), "rect")[1:]
    assert left.attrib["y"] == right.attrib["y"]
    assert float(left.attrib["x"]) + float(left.attrib["width"]) < float(right.attrib["x"])
    assert int(added.attrib["y"]) > int(left.attrib["y"]) + int(left.attrib["height"])


def test_every_input_is_an_edge_and_every_layer_is_named() -> None:
    network = _diamond()
    assert len(_parts(network, "path")) == 5
    told = " ".join(part.text or "" for part in _parts(network, "text"))
    for word in ("diamond", "a  3x3, 2", "follows  ReLU", "right  1x3, 2", "fc  Dense 3", "8x8x2"):
        assert word in told


@pytest.mark.parametrize("name", ["googlenet", "resnet-50", "densenet-121", "mobilenet-v2"])
def test_networks_are_drawn_within_the_picture(name: str) -> None:
    network = NETWORKS[name]()
    picture = ET.fromstring(network_to_svg(network))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    boxes = picture.findall(f"{SVG}rect")[1:]
    assert len(boxes) > 50
    for box in boxes:
        x, y = float(box.attrib["x"]), float(box.attrib["y"])
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height
    places = [(box.attrib["x"], box.attrib["y"]) for box in boxes]
    assert len(set(places)) == len(places)
