"""The implementations by name, and what each of them consists of."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vectorized_ops.errors import OperationError

IMPLEMENTATIONS = ("reference", "numba", "onednn")


@dataclass(frozen=True, slots=True)
class Operations:
    """One implementation of every operation; what each means stands in `vectorized_ops.reference`.

    `pooled_convolution` is None where convolution and pooling are not fused.
    """

    name: str
    use_threads: Callable[[int], None]
    activations: Callable[..., Any]
    load_images: Callable[..., None]
    flatten: Callable[..., Any]
    unflatten: Callable[..., None]
    convolution: Callable[..., Any]
    max_pooling: Callable[..., Any]
    pooled_convolution: Callable[..., Any] | None
    dense: Callable[..., Any]
    relu_forward: Callable[..., None]
    relu_backward: Callable[..., None]
    softmax_cross_entropy: Callable[..., float]


def operations(name: str) -> Operations:
    """Import and return the implementation `name`, one of IMPLEMENTATIONS."""
    if name not in IMPLEMENTATIONS:
        raise OperationError(
            f"unknown implementation {name!r}: expected one of {', '.join(IMPLEMENTATIONS)}"
        )

    def module(part: str) -> Any:
        return importlib.import_module(f"vectorized_ops.{name}.{part}")

    arrays, activation = module("arrays"), module("activation")
    return Operations(
        name=name,
        use_threads=arrays.use_threads,
        activations=arrays.activations,
        load_images=arrays.load_images,
        flatten=arrays.flatten,
        unflatten=arrays.unflatten,
        convolution=module("convolution").Convolution,
        max_pooling=module("pooling").MaxPooling,
        pooled_convolution=(
            module("pooled_convolution").pooled_convolution if name == "numba" else None
        ),
        dense=module("dense").Dense,
        relu_forward=activation.relu_forward,
        relu_backward=activation.relu_backward,
        softmax_cross_entropy=module("loss").softmax_cross_entropy,
    )
