"""Normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from knltrain.interchange.torch_terms.terms import (
    CHANNEL_AXES,
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
    LayerNormalisation,
    LocalResponseNormalisation,
    Role,
    Shape,
    WithinChannelNormalisation,
)


def _batch_normalisation(layer: BatchNormalisation, shape: Shape) -> TorchTerms:
    arguments = {"num_features": shape[-1], "eps": layer.epsilon, "momentum": layer.momentum}
    kind = f"{'Frozen' * layer.frozen}BatchNorm{2 if len(shape) == 3 else 1}d"
    return TorchTerms((TorchModule(kind, arguments),))


def _layer_normalisation(layer: LayerNormalisation, shape: Shape) -> TorchTerms:
    arguments = {"channels": shape[-1], "epsilon": layer.epsilon}
    return TorchTerms((TorchModule("ChannelNorm", arguments),))


def _local_response(layer: LocalResponseNormalisation, _shape: Shape) -> TorchTerms:
    arguments = {"size": layer.size, "alpha": layer.alpha, "beta": layer.beta, "k": layer.bias}
    return TorchTerms((TorchModule("LocalResponseNorm", arguments),))


def _within_channel(layer: WithinChannelNormalisation, _shape: Shape) -> TorchTerms:
    arguments = {"size": layer.size, "alpha": layer.alpha, "beta": layer.beta}
    return TorchTerms((TorchModule("WithinChannelNorm", arguments),))


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


def _read_layer(call: Call) -> Layer:
    axis = CHANNEL_AXES[call.forms[0]]
    channels, wanted = call.shapes["input"][axis], tuple(call.arguments["normalized_shape"])
    if wanted != (channels,):
        raise call.refused(
            f"layer normalisation over {wanted}, expected channels alone, which come last: "
            f"({channels},)"
        )
    for key in ("weight", "bias"):
        if key not in call.shapes:
            raise call.refused(
                f"layer normalisation without {key}, expected elementwise_affine=True and bias=True"
            )
    return LayerNormalisation(call.name, call.arguments["eps"], inputs=call.inputs)


def _read_local_response(name: str, inputs: tuple[str, ...], module: Any) -> Layer:
    return LocalResponseNormalisation(
        name, module.size, module.alpha, module.beta, module.k, inputs=inputs
    )


def _read_within_channel(name: str, inputs: tuple[str, ...], module: Any) -> Layer:
    return WithinChannelNormalisation(name, module.size, module.alpha, module.beta, inputs)


TERMS: Final[Terms] = {
    BatchNormalisation: _batch_normalisation,
    LayerNormalisation: _layer_normalisation,
    LocalResponseNormalisation: _local_response,
    WithinChannelNormalisation: _within_channel,
}
_TENSORS: Final[Mapping[str, Role]] = {
    "weight": "scale",
    "bias": "shift",
    "running_mean": "running_mean",
    "running_var": "running_variance",
}
_AFFINE: Final[Mapping[str, Role]] = {"weight": "scale", "bias": "shift"}
READERS: Final[Readers] = {
    "batch_norm": Reader(_read_batch, ("map", "mean", "vector"), _TENSORS),
    "layer_norm": Reader(_read_layer, ("vector", "map last", "mean last"), _AFFINE),
}
WHOLE_MODULES: Final[WholeModules] = {
    "knltrain.interchange.own_modules.WithinChannelNorm": _read_within_channel,
    "torch.nn.modules.normalization.LocalResponseNorm": _read_local_response,
}
