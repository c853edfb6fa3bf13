"""The description of a layer's parameters: shapes, initial values, optimizer settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from knltrain.errors import NetworkError, unknown_name

__all__ = ["CAFFE_BIAS", "Initial", "Multipliers", "ParameterSpec", "Role", "Shape"]

Shape = tuple[int, ...]
Role = Literal["weights", "bias", "scale", "shift", "slopes", "running_mean", "running_variance"]

INITIALISERS = ("xavier", "msra", "gaussian:DEVIATION", "uniform:BOUND", "constant:VALUE")


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Caffe's lr_mult and decay_mult: factors of learning rate and weight decay."""

    learning_rate: float = 1.0
    decay: float = 1.0


PLAIN = Multipliers()
CAFFE_BIAS = Multipliers(learning_rate=2.0, decay=0.0)
"""The multipliers of biases in Caffe's example networks."""


@dataclass(frozen=True, slots=True)
class Initial:
    """First values: uniform in ±size, normal with deviation `size`, or all equal to `size`."""

    kind: Literal["uniform", "normal", "constant"]
    size: float


ZERO = Initial("constant", 0.0)

_WITH_NUMBER: dict[str, Literal["uniform", "normal", "constant"]] = {
    "gaussian": "normal",
    "uniform": "uniform",
    "constant": "constant",
}


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter array: its name ("conv1.weights"), shape, and place in the packed vector.

    `offset` counts float32 values from the start of the vector. A parameter whose
    `statistic_momentum` m is not None is a running statistic: its "gradient" is (running - batch
    statistic), and optimizers apply w -= m g, without learning rate, momentum or decay.
    """

    name: str
    shape: Shape
    role: Role
    offset: int = 0
    initial: Initial = ZERO
    learning_rate_multiplier: float = 1.0
    decay_multiplier: float = 1.0
    statistic_momentum: float | None = None

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def is_statistic(self) -> bool:
        """Whether this is a running statistic, which is kept and not trained."""
        return self.statistic_momentum is not None

    @property
    def is_frozen(self) -> bool:
        """Whether it never changes, for its learning rate or statistic momentum is 0."""
        if self.statistic_momentum is not None:
            return self.statistic_momentum == 0
        return self.learning_rate_multiplier == 0

    @property
    def layer(self) -> str:
        """Name of the layer that it belongs to."""
        return self.name.rpartition(".")[0]


def weights_and_bias(
    layer: str,
    shape: Shape,
    initialiser: str,
    bias: float | None,
    multipliers: tuple[Multipliers, Multipliers],
) -> tuple[ParameterSpec, ...]:
    """Weights of `shape`, and unless it is None a bias that starts with that value everywhere.

    `multipliers` are those of the weights and of the bias.
    """
    weights = ParameterSpec(
        f"{layer}.weights",
        shape,
        "weights",
        initial=initial_weights(layer, initialiser, math.prod(shape[1:])),
        learning_rate_multiplier=multipliers[0].learning_rate,
        decay_multiplier=multipliers[0].decay,
    )
    if bias is None:
        return (weights,)
    return weights, ParameterSpec(
        f"{layer}.bias",
        shape[:1],
        "bias",
        initial=Initial("constant", bias),
        learning_rate_multiplier=multipliers[1].learning_rate,
        decay_multiplier=multipliers[1].decay,
    )


def scale_and_shift(
    layer: str, shape: Shape, scale: float, multipliers: tuple[Multipliers, Multipliers]
) -> tuple[ParameterSpec, ...]:
    """Scale, all equal to `scale` at first, and shift, 0; both of `shape`.

    `multipliers` are those of the scale and of the shift.
    """
    roles: tuple[tuple[Role, float], ...] = ("scale", scale), ("shift", 0.0)
    return tuple(
        ParameterSpec(
            f"{layer}.{role}",
            shape,
            role,
            initial=Initial("constant", first),
            learning_rate_multiplier=own.learning_rate,
            decay_multiplier=own.decay,
        )
        for (role, first), own in zip(roles, multipliers, strict=True)
    )


def initial_weights(layer: str, initialiser: str, fan_in: int) -> Initial:
    """First weights of a layer each of whose outputs is computed from `fan_in` inputs.

    "xavier": uniform in ±sqrt(3 / fan_in) (Glorot and Bengio, AISTATS 2010, as Caffe's
    XavierFiller); "msra": normal with deviation sqrt(2 / fan_in) (He et al., ICCV 2015, as Caffe's
    MSRAFiller); "gaussian:0.01": normal with that deviation; "uniform:0.1": uniform in ±0.1;
    "constant:0": all equal. NetworkError for anything else.
    """
    if initialiser == "xavier":
        return Initial("uniform", math.sqrt(3 / fan_in))
    if initialiser == "msra":
        return Initial("normal", math.sqrt(2 / fan_in))
    kind, _, number = initialiser.partition(":")
    if kind not in _WITH_NUMBER:
        raise NetworkError(
            f"layer '{layer}': {unknown_name('initialiser', initialiser, INITIALISERS)}"
        )
    return Initial(_WITH_NUMBER[kind], _number(layer, kind, number))


def _number(layer: str, kind: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (kind != "constant" and number <= 0):
        expected = "number" if kind == "constant" else "number above 0"
        raise NetworkError(
            f"layer '{layer}': initialiser '{kind}:{text}', expected a {expected} behind the "
            f"colon, as in '{kind}:0.01'"
        )
    return number
