"""Layers in PyTorch's terms, both ways: the modules of a layer, the layer of an ATen operation."""

from __future__ import annotations

from typing import Final

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms import (
    activation,
    channels,
    convolution,
    dense,
    merging,
    normalisation,
    padding,
    pooling,
)
from knltrain.interchange.torch_terms.terms import (
    TORCH_NAMES,
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
    WholeModules,
)
from knltrain.network.layers import Layer, Shape

__all__ = [
    "READERS",
    "TORCH_NAMES",
    "WHOLE_MODULES",
    "Call",
    "Reader",
    "TorchModule",
    "TorchTerms",
    "terms_of",
]

_FAMILIES: Final = (
    activation,
    channels,
    convolution,
    dense,
    merging,
    normalisation,
    padding,
    pooling,
)
_TERMS: Final[Terms] = {kind: make for family in _FAMILIES for kind, make in family.TERMS.items()}
READERS: Final[Readers] = {
    name: reader for family in _FAMILIES for name, reader in family.READERS.items()
}
WHOLE_MODULES: Final[WholeModules] = {
    **activation.WHOLE_MODULES,
    **normalisation.WHOLE_MODULES,
}


def terms_of(layer: Layer, shape: Shape) -> TorchTerms:
    """The modules of a layer whose inputs have `shape`; NetworkError where PyTorch has none."""
    terms = _TERMS.get(type(layer))
    if terms is None:
        raise NetworkError(f"layer '{layer.name}': {type(layer).__name__} has no PyTorch module")
    return terms(layer, shape)
