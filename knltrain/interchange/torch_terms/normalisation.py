"""Normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from knltrain.interchange.torch_terms.terms import (
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
    WholeModules,
)
from knltrain.network.layers import (
    BatchNormalisation,
    Layer,
    LocalResponseNormalisation,
    Role,
    Shape,
)


def _batch_normalisation(layer: BatchNormalisation, shape: Shape) -> TorchTerms:
    arguments = {"num_features": shape[2], "eps": layer.epsilon, "momentum": layer.momentum}
    kind = "FrozenBatchNorm2d" if layer.frozen else "BatchNorm2d"
    return TorchTerms((TorchModule(kind, arguments),))


def _local_response(layer: LocalResponseNormalisation, _shape: Shape) -> TorchTerms:
    arguments = {"size": layer.size, "alpha": layer.alpha, "beta": layer.beta, "k": layer.bias}
    return TorchTerms((TorchModule("LocalResponseNorm", arguments),))


def _read_batch(call: Call) -> Layer:
    for key in ("weight", "bias", "running_mean", "running_var"):
        if key not in call.shapes:
            raise call.refused(
                f"batch normalisation without {key}, expected affine=True and "
                "track_running_stats=True"
            )
    return BatchNormalisation(
        call.name,
        call.arguments["eps"],
        call.arguments["momentum"],
        inputs=call.inputs,
        frozen=not call.arguments["training"],
    )


def _read_local_response(name: str, inputs: tuple[str, ...], module: Any) -> Layer:
    return LocalResponseNormalisation(
        name, module.size, module.alpha, module.beta, module.k, inputs=inputs
    )


TERMS: Final[Terms] = {
    BatchNormalisation: _batch_normalisation,
    LocalResponseNormalisation: _local_response,
}
_TENSORS: Final[Mapping[str, Role]] = {
    "weight": "scale",
    "bias": "shift",
    "running_mean": "running_mean",
    "running_var": "running_variance",
}
READERS: Final[Readers] = {"batch_norm": Reader(_read_batch, tensors=_TENSORS)}
WHOLE_MODULES: Final[WholeModules] = {
    "torch.nn.modules.normalization.LocalResponseNorm": _read_local_response
}
