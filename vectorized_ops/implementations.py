"""The implementations by name, and the parts of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from vectorized_ops.errors import OperationError

IMPLEMENTATIONS = ("reference", "numba", "onednn")

Operation = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operations:
    """One implementation of every operation; `vectorized_ops.reference` defines each.

    An entry is None where the implementation lacks it: `pooled_convolution` without fused
    convolution and pooling, `local_response_normalisation` and `dropout` where no library has them,
    `chosen` without autotuning, `prepare` without compilation.
    """

    name: str
    use_threads: Callable[[int], None]
    activations: Callable[..., Any]
    activations_size: Callable[[tuple[int, ...]], int]
    activations_in: Callable[..., Any]
    load_images: Callable[..., None]
    flatten: Callable[..., Any]
    unflatten: Callable[..., None]
    convolution: Operation
    max_pooling: Operation
    average_pooling: Operation
    global_average_pooling: Operation
    pooled_convolution: Operation | None
    dense: Operation
    batch_normalisation: Operation
    local_response_normalisation: Operation | None
    relu_forward: Callable[..., None]
    relu_backward: Callable[..., None]
    rectifier: Operation
    dropout: Operation | None
    add: Callable[..., None]
    softmax_cross_entropy: Callable[..., float]
    chosen: Callable[..., Any] | None
    prepare: Callable[[Callable[[], object]], None] | None


def operations(name: str, winograd: bool = True) -> Operations:
    """Import and return the implementation `name`, one of IMPLEMENTATIONS.

    "numba" measures which algorithm convolves each shape fastest. Without `winograd`, which
    includes Strassen's, it sums directly, with smaller rounding errors.
    """
    if name not in IMPLEMENTATIONS:
        raise OperationError(
            f"unknown implementation {name!r}: expected one of {', '.join(IMPLEMENTATIONS)}"
        )

    def found(part: str, operation: str) -> Any:
        module = f"vectorized_ops.{name}.{part}"
        if find_spec(module) is None:
            return None
        return getattr(importlib.import_module(module), operation, None)

    return Operations(
        name=name,
        use_threads=found("arrays", "use_threads"),
        activations=found("arrays", "activations"),
        activations_size=found("arrays", "activations_size"),
        activations_in=found("arrays", "activations_in"),
        load_images=found("arrays", "load_images"),
        flatten=found("arrays", "flatten"),
        unflatten=found("arrays", "unflatten"),
        convolution=(
            found("tuned_convolution", "TunedConvolution")
            if name == "numba" and winograd
            else found("convolution", "Convolution")
        ),
        max_pooling=found("pooling", "MaxPooling"),
        average_pooling=found("pooling", "AveragePooling"),
        global_average_pooling=found("pooling", "GlobalAveragePooling"),
        pooled_convolution=_pooled(found, winograd) if name == "numba" else None,
        dense=found("dense", "Dense"),
        batch_normalisation=found("normalisation", "BatchNormalisation"),
        local_response_normalisation=found("lrn", "LocalResponseNormalisation"),
        relu_forward=found("activation", "relu_forward"),
        relu_backward=found("activation", "relu_backward"),
        rectifier=found("activation", "Rectifier"),
        dropout=found("dropout", "Dropout"),
        add=found("addition", "add"),
        softmax_cross_entropy=found("loss", "softmax_cross_entropy"),
        chosen=found("compiling.autotuning", "chosen") if name == "numba" else None,
        prepare=found("compiling.recording", "prepare") if name == "numba" else None,
    )


def _pooled(found: Callable[[str, str], Any], winograd: bool) -> Operation:
    make: Operation = found("pooled_convolution", "pooled_convolution")
    return make if winograd else partial(make, algorithm="direct")
