"""Types of Caffe's layers that cannot be kept, each with what is expected instead."""

from __future__ import annotations

from typing import Final

from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.walk import Converter, Walk


def _refusal(way_out: str) -> Converter:
    def refuse(layer: NetLayer, _walk: Walk) -> None:
        raise layer.refused(f"type '{layer.kind}' is not there: {way_out}")

    return refuse


_OTHER_ACTIVATION: Final = (
    "expected ReLU, which may have a negative_slope, PReLU, Clip from 0, Sigmoid, Swish or TanH"
)
_OTHER_LOSS: Final = "expected SoftmaxWithLoss, SigmoidCrossEntropyLoss or EuclideanLoss"
_OTHER_FORM: Final = (
    "expected a net without it; write it as a network of knltrain (docs/networks.md)"
)

REFUSED: Final[dict[str, Converter]] = {
    **dict.fromkeys(
        ("AbsVal", "BNLL", "ELU", "Threshold"),
        _refusal(_OTHER_ACTIVATION),
    ),
    **dict.fromkeys(
        (
            "ContrastiveLoss",
            "HingeLoss",
            "InfogainLoss",
            "MultinomialLogisticLoss",
            "SmoothL1Loss",
        ),
        _refusal(_OTHER_LOSS),
    ),
    **dict.fromkeys(
        [
            "ArgMax",
            "BatchReindex",
            "Crop",
            "Deconvolution",
            "Embed",
            "Exp",
            "Filter",
            "HDF5Output",
            "Im2col",
            "LSTM",
            "Log",
            "MVN",
            "Parameter",
            "Python",
            "RNN",
            "Recurrent",
            "Reduction",
            "Reshape",
            "SPP",
            "Tile",
        ],
        _refusal(_OTHER_FORM),
    ),
}
