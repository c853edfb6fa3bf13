"""A network with its parameters as ONNX, by PyTorch's exporter."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

import torch

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.cleaning import clean
from knltrain.interchange.onnx.installation import check_onnx
from knltrain.interchange.to_torch import to_torch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

INPUT: Final = "images"
OUTPUT: Final = "logits"
_NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})
_IMAGES: Final = 2
"""Of one image, the exporter would make a constant."""
_LARGEST_FILE: Final = (1 << 31) - 1
"""Of a message of protocol buffers."""


def onnx_file(
    network: Network, parameters: ParameterVector, metadata: Mapping[str, str] = _NO_METADATA
) -> bytes:
    """The network in evaluation: "images" (N,C,H,W) float32 to "logits" (N,classes), any N.

    `metadata` become properties of the model. Batch normalisations stay as they are. Weights have
    PyTorch's names, as "conv1.weight". Raises NetworkError where the extra `onnx` is not installed,
    and for networks that are too large.
    """
    check_onnx()
    import onnxscript.optimizer

    size = 4 * network.packed_size
    if size > _LARGEST_FILE:
        raise NetworkError(
            f"network '{network.name}' has {size:,} bytes of weights: expected at most "
            f"{_LARGEST_FILE:,}, the limit of a file of ONNX"
        )
    height, width, channels = network.input_shape
    module = _with_means(to_torch(network, parameters).eval())
    example = torch.zeros((_IMAGES, channels, height, width), dtype=torch.float32, device="cpu")
    with _quiet():
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            optimize=False,
            verbose=False,
        )
        assert program is not None
        model = program.model
        onnxscript.optimizer.fold_constants(model)
        onnxscript.optimizer.remove_unused_nodes(model)
        proto = program.model_proto
    proto.graph.name = network.name
    proto.producer_name = "knltrain"
    for key, value in metadata.items():
        proto.metadata_props.add(key=key, value=value)
    clean(proto.graph)
    content: bytes = proto.SerializeToString()
    return content


class _Mean(torch.nn.Module):
    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return maps.mean((2, 3), keepdim=True)


def _with_means(module: torch.nn.Module) -> torch.nn.Module:
    """A module whose global poolings are means.

    The exporter writes those of channels last, as behind a layer normalisation, as a Gather.
    """
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if isinstance(child, torch.nn.AdaptiveAvgPool2d) and child.output_size in (1, (1, 1)):
                setattr(parent, name, _Mean())
    return module


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter tells of packages that are not there."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
