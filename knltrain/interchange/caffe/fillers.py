"""First values and multipliers of Caffe's parameters, in knltrain's words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.walk import Learnable, Walk
from knltrain.network.layers import Multipliers, Shape

_COUNTS: Final[dict[str, Callable[[int, int], float]]] = {
    "FAN_IN": lambda fan_in, _: fan_in,
    "FAN_OUT": lambda _, fan_out: fan_out,
    "AVERAGE": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
}


def initialiser(filler: Message, shape: Shape) -> str:
    """The initialiser of weights of `shape` (outputs, inputs, ...) that a filler stands for.

    As in Caffe's filler.hpp; without a filler they start at 0.
    """
    kind, title = filler.text("type", "constant"), filler.name
    if kind == "constant":
        return f"constant:{filler.number('value', 0.0)!r}"
    if kind in ("xavier", "msra"):
        count = filler.choice("variance_norm", _COUNTS["FAN_IN"], _COUNTS)
        if count is _COUNTS["FAN_IN"]:
            return kind
        size = math.prod(shape)
        n = count(size // shape[0], size // shape[1])
        return (
            f"uniform:{math.sqrt(3 / n)!r}"
            if kind == "xavier"
            else f"gaussian:{math.sqrt(2 / n)!r}"
        )
    if kind == "gaussian":
        mean, sparse = filler.number("mean", 0.0), filler.whole("sparse", -1)
        if mean == 0 and sparse == -1:
            return f"gaussian:{filler.number('std', 1.0)!r}"
        raise _refused(filler, f"{title} 'gaussian' with mean {mean} and sparse {sparse}")
    if kind == "uniform":
        least, most = filler.number("min", 0.0), filler.number("max", 1.0)
        if least == -most:
            return f"uniform:{most!r}"
        raise _refused(filler, f"{title} 'uniform' from {least} to {most}")
    raise _refused(filler, f"{title} '{kind}'")


def constant(filler: Message, default: float = 0.0) -> float:
    """The value of a filler that has to be constant, as those of biases are."""
    kind = filler.text("type", "constant")
    if kind != "constant":
        raise _refused(filler, f"{filler.name} '{kind}' of a bias or scale")
    return filler.number("value", default)


def multipliers(layer: NetLayer, walk: Walk, count: int) -> list[Multipliers]:
    """lr_mult and decay_mult of a layer's `count` parameter arrays; 1 where none are given.

    The walk notes them in Caffe's order. ConfigError for arrays that layers share.
    """
    walk.learnable += [Learnable(layer.name, layer.kind, place) for place in range(count)]
    params = layer.message.messages("param")
    if len(params) > count:
        raise layer.refused(
            f"{len(params)} param for {count} arrays: expected at most {count}", params[count].line
        )
    found = [Multipliers() for _ in range(count)]
    for place, param in enumerate(params):
        if name := param.text("name"):
            other = walk.shared.setdefault(name, layer.name)
            if other != layer.name or param.line_of("share_mode") is not None:
                raise layer.refused(
                    f"shares the parameter '{name}' with layer '{other}': knltrain shares none; "
                    "give each its own, without a name",
                    param.line,
                )
        found[place] = Multipliers(param.number("lr_mult", 1.0), param.number("decay_mult", 1.0))
    return found


def _refused(filler: Message, what: str) -> Exception:
    return filler.error(
        filler.line,
        f"{what} is not there: expected constant, xavier, msra, gaussian around 0 or uniform "
        "around 0; weights of a file need no filler (network.weights)",
    )
