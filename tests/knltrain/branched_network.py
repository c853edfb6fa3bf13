"""A small network with every kind of layer, branches, groups and two outputs."""

from __future__ import annotations

import pytest

from knltrain.network.graph import Output
from knltrain.network.layers import (
    Addition,
    AveragePooling,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network


@pytest.fixture(scope="session")
def branched() -> Network:
    """Images (9,8,2), 3 classes; `main` is evaluated, `aside` weighs 0.3 in training."""
    return Network(
        "branched",
        (9, 8, 2),
        (
            Convolution("stem/conv", 4, (3, 1), stride=(2, 1), padding=(1, 0), bias=False),
            BatchNormalisation("stem/norm", epsilon=1e-3, momentum=0.25),
            ReLU("stem/relu", slope=0.1),
            LocalResponseNormalisation("lrn", size=3, alpha=0.5),
            Convolution("left", 4, 3, padding=2, dilation=2, groups=2, inputs=("lrn",)),
            BatchNormalisation("left/norm"),
            Addition("sum", ("left/norm", "lrn")),
            ReLU("capped", ceiling=0.5),
            MaxPooling("right", 3, 2, 1, ceil=True, inputs=("lrn",)),
            AveragePooling("small", 3, 2, 1, ceil=True, inputs=("capped",)),
            Concatenation("joined", ("small", "right")),
            GlobalAveragePooling("aside/pool"),
            Dense("aside", 3),
            Dropout("drop", 0.5, inputs=("joined",)),
            Dense("main", 3, bias=False),
        ),
        (Output("main"), Output("aside", 0.3)),
    )
