"""Nets and solvers of Caffe, as tests write them."""

from __future__ import annotations

from pathlib import Path

from knltrain.interchange.caffe.net import CaffeNet, network_of
from knltrain.interchange.caffe.phases import NetState
from knltrain.interchange.caffe.text_format import parse
from knltrain.network.layers import Layer

NETS = Path(__file__).parent / "nets"

DATA = (
    'layer { name: "data" type: "Input" top: "data" '
    "input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n"
)
"""Images 8x8x3, line 1."""

LABELLED = """layer { name: "data" type: "Data" top: "data" top: "label"
  data_param { source: "a/mnist_lmdb" batch_size: 4 } }
"""
"""Images 28x28x1 and labels, lines 1 and 2."""

DENSE = """layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
"""

LOSS = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }\n'

SMALL = LABELLED + DENSE + LOSS
"""A net that can be trained."""


def layer(kind: str, settings: str = "", bottom: str = "data", top: str | None = None) -> str:
    """A layer of one line, named as its top: "top", unless it is given."""
    name = top or "top"
    bottoms = " ".join(f'bottom: "{each}"' for each in bottom.split())
    return f'layer {{ name: "{name}" type: "{kind}" {bottoms} top: "{name}" {settings} }}\n'


def net(text: str, shape: tuple[int, int, int] | None = None) -> CaffeNet:
    """The network of a net's text, which messages call a.prototxt."""
    return network_of(parse(text, "a.prototxt"), NetState("TRAIN"), NetState("TEST"), shape)


def layers(text: str) -> tuple[Layer, ...]:
    """The layers of a net behind `DATA`."""
    return net(DATA + text).network.layers
