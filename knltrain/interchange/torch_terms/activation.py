"""Elementwise layers."""

from __future__ import annotations

import math
from typing import Any, Final

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms.terms import (
    ANY,
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
    WholeModules,
    number_of,
)
from knltrain.network.layers import (
    Activation,
    Affine,
    Dropout,
    Layer,
    PReLU,
    ReLU,
    Shape,
    StochasticDepth,
)


def _rectifier(layer: ReLU, _shape: Shape) -> TorchTerms:
    bent = TorchModule("LeakyReLU", {"negative_slope": layer.slope})
    if layer.ceiling == math.inf:
        return TorchTerms((bent if layer.slope else TorchModule("ReLU"),))
    lowest = -math.inf if layer.slope else 0.0
    cut = TorchModule("Hardtanh", {"min_val": lowest, "max_val": layer.ceiling})
    return TorchTerms((bent, cut) if layer.slope else (cut,))


def _prelu(layer: PReLU, shape: Shape) -> TorchTerms:
    slopes = {"num_parameters": 1 if layer.shared else shape[-1]}
    return TorchTerms((TorchModule("PReLU", slopes),))


_MODULES: Final = {
    "gelu": TorchModule("GELU"),
    "gelu_tanh": TorchModule("GELU", {"approximate": "tanh"}),
    "hard_sigmoid": TorchModule("Hardsigmoid"),
    "hard_swish": TorchModule("Hardswish"),
    "sigmoid": TorchModule("Sigmoid"),
    "silu": TorchModule("SiLU"),
    "tanh": TorchModule("Tanh"),
}


def _activation(layer: Activation, _shape: Shape) -> TorchTerms:
    return TorchTerms((_MODULES[layer.function],))


def _dropout(layer: Dropout, _shape: Shape) -> TorchTerms:
    return TorchTerms((TorchModule("Dropout", {"p": layer.rate}),))


def _stochastic_depth(layer: StochasticDepth, _shape: Shape) -> TorchTerms:
    return TorchTerms((TorchModule("StochasticDepth", {"rate": layer.rate}),))


def _read_stochastic_depth(name: str, inputs: tuple[str, ...], module: Any) -> Layer:
    """Of torchvision's StochasticDepth or timm's DropPath."""
    rate = float(getattr(module, "p", 0.0) or getattr(module, "drop_prob", 0.0))
    if getattr(module, "mode", "row") != "row" or not getattr(module, "scale_by_keep", True):
        raise NetworkError(f"{module}: expected mode 'row' and values that are scaled up")
    return StochasticDepth(name, rate, inputs)


def _reader(function: str) -> Reader:
    return Reader(lambda call: Activation(call.name, function, call.inputs), ANY)


def _read_gelu(call: Call) -> Layer:
    function = "gelu_tanh" if call.arguments.get("approximate") == "tanh" else "gelu"
    return Activation(call.name, function, call.inputs)


def _affine(layer: Affine, _shape: Shape) -> TorchTerms:
    numbers = {"factor": layer.factor, "offset": layer.offset}
    return TorchTerms((TorchModule("Affine", numbers),))


def _read_quotient(call: Call) -> Layer:
    divisor = number_of(call) if "other" not in call.shapes else 0.0
    if not divisor:
        raise call.refused("a quotient of layers' outputs or by 0, expected a number")
    if call.arguments.get("rounding_mode"):
        raise call.refused(f"rounding_mode = {call.arguments['rounding_mode']!r}, expected none")
    return Affine(call.name, 1 / divisor, inputs=call.inputs)


def _read_difference(call: Call) -> Layer:
    if "other" in call.shapes:
        raise call.refused("a difference of layers' outputs, expected that with a number")
    call.expect(alpha=1)
    return Affine(call.name, 1.0, -number_of(call), call.inputs)


def _read_reverse_difference(call: Call) -> Layer:
    """Of a number and a layer's output."""
    if "other" in call.shapes:
        raise call.refused("a difference of layers' outputs, expected that with a number")
    call.expect(alpha=1)
    return Affine(call.name, -1.0, number_of(call), call.inputs)


def _read_negative(call: Call) -> Layer:
    return Affine(call.name, -1.0, inputs=call.inputs)


def _read_rectifier(call: Call) -> Layer:
    return ReLU(call.name, inputs=call.inputs)


def _read_leaky(call: Call) -> Layer:
    return ReLU(call.name, slope=call.arguments["negative_slope"], inputs=call.inputs)


def _read_prelu(call: Call) -> Layer:
    (count,) = call.shapes["weight"]
    channels = call.shapes["self"][0]
    if count not in (1, channels):
        raise call.refused(f"{count} slopes for {channels} channels, expected 1 or {channels}")
    return PReLU(call.name, shared=count == 1 < channels, inputs=call.inputs)


def _read_cut(call: Call) -> Layer:
    lowest = call.arguments.get("min_val", 0)
    if lowest != 0:
        raise call.refused(f"min_val = {lowest}, only 0 is supported")
    return ReLU(call.name, ceiling=call.arguments.get("max_val", 6), inputs=call.inputs)


def _read_dropout(call: Call) -> Layer | None:
    rate = call.arguments["p"]
    return (
        Dropout(call.name, rate, inputs=call.inputs) if call.arguments["train"] and rate else None
    )


TERMS: Final[Terms] = {
    Activation: _activation,
    Affine: _affine,
    Dropout: _dropout,
    PReLU: _prelu,
    ReLU: _rectifier,
    StochasticDepth: _stochastic_depth,
}
READERS: Final[Readers] = {
    "div": Reader(_read_quotient, ANY),
    "neg": Reader(_read_negative, ANY),
    "rsub": Reader(_read_reverse_difference, ANY),
    "sub": Reader(_read_difference, ANY),
    "dropout": Reader(_read_dropout, ANY),
    "gelu": Reader(_read_gelu, ANY),
    "hardsigmoid": _reader("hard_sigmoid"),
    "hardswish": _reader("hard_swish"),
    "hardtanh": Reader(_read_cut, ANY),
    "leaky_relu": Reader(_read_leaky, ANY),
    "prelu": Reader(_read_prelu, ("map", "vector"), {"weight": "slopes"}),
    "relu": Reader(_read_rectifier, ANY),
    "relu6": Reader(_read_cut, ANY),
    "sigmoid": _reader("sigmoid"),
    "silu": _reader("silu"),
    "tanh": _reader("tanh"),
}
WHOLE_MODULES: Final[WholeModules] = {
    "timm.layers.drop.DropPath": _read_stochastic_depth,
    "torchvision.ops.stochastic_depth.StochasticDepth": _read_stochastic_depth,
}
