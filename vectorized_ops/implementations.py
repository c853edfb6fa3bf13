"""The implementations by name, and the parts of each."""

from __future__ import annotations

from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, final

from vectorized_ops.errors import OperationError

IMPLEMENTATIONS = ("reference", "numba", "onednn", "channels_last")

OF_LAYOUTS = {"images_last": "numba", "channels_last": "channels_last"}
"""By what the lanes of vectors are, the implementation of our own kernels."""

_COMPLETED_BY = {"channels_last": "reference"}
"""Whose parts, in the same memory order, an implementation has where it lacks its own."""

PRECISIONS = ("float32", "bfloat16")
"""How activations and their gradients are kept."""


class _Part:
    """An attribute of a module of the implementation, imported when it is first asked for."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, operations: Operations, owner: type) -> Any:
        found = vars(operations)[self._attribute] = operations.part(self._module, self._name)
        return found


@final
class Operations:
    """One implementation of every operation; `vectorized_ops.reference` defines each.

    An attribute is None where the implementation lacks it: `pooled_convolution` without fused
    convolution and pooling, `local_response_normalisation`, `within_channel_normalisation` and
    `dropout` where no library has them, `chosen` without autotuning, `prepare` without compilation,
    `repetition` without kernels whose calls can be captured. Modules are imported when a part of
    them is first asked for.
    """

    use_threads = _Part("arrays", "use_threads")
    activations = _Part("arrays", "activations")
    activations_size = _Part("arrays", "activations_size")
    activations_in = _Part("arrays", "activations_in")
    load_images = _Part("arrays", "load_images")
    flatten = _Part("arrays", "flatten")
    unflatten = _Part("arrays", "unflatten")
    max_pooling = _Part("pooling", "MaxPooling")
    average_pooling = _Part("pooling", "AveragePooling")
    global_average_pooling = _Part("pooling", "GlobalAveragePooling")
    batch_normalisation = _Part("normalisation", "BatchNormalisation")
    running_gradient = _Part("normalisation", "running_gradient")
    local_response_normalisation = _Part("lrn", "LocalResponseNormalisation")
    layer_normalisation = _Part("layer_normalisation", "LayerNormalisation")
    relu_forward = _Part("rectifier", "relu_forward")
    relu_backward = _Part("rectifier", "relu_backward")
    rectifier = _Part("rectifier", "Rectifier")
    activation = _Part("activation", "Activation")
    affine = _Part("affine", "Affine")
    parametric_rectifier = _Part("parametric_rectifier", "ParametricRectifier")
    padding = _Part("padding", "Padding")
    within_channel_normalisation = _Part("within_channel", "WithinChannelNormalisation")
    channel_product = _Part("product", "ChannelProduct")
    channel_scale = _Part("scaling", "ChannelScale")
    channel_selection = _Part("selection", "ChannelSelection")
    dropout = _Part("dropout", "Dropout")
    add = _Part("addition", "add")
    softmax_cross_entropy = _Part("loss", "softmax_cross_entropy")
    sigmoid_cross_entropy = _Part("loss", "sigmoid_cross_entropy")
    mean_squared_error = _Part("loss", "mean_squared_error")
    chosen = _Part("compiling.autotuning", "chosen")
    prepare = _Part("compiling.recording", "prepare")
    repetition = _Part("compiling.replay", "Repetition")

    def __init__(
        self,
        name: str,
        winograd: bool = True,
        precision: str = "float32",
        emulates: bool = False,
    ) -> None:
        self.name, self._winograd, self.precision = name, winograd, precision
        self._emulates = emulates

    @cached_property
    def kept(self) -> Any:
        """NumPy's type of activations: uint16 for bfloat16, see `vectorized_ops.bfloat16`."""
        import numpy as np

        from vectorized_ops.layout import STORED

        return STORED if self.precision == "bfloat16" else np.dtype(np.float32)

    @cached_property
    def convolution(self) -> Any:
        """Makes convolutions."""
        tuned = self.part("tuned_convolution", "TunedConvolution")
        if tuned is None:
            return self.part("convolution", "Convolution")
        options: dict[str, Any] = {} if self._winograd else {"algorithms": ("direct",)}
        if self.precision == "bfloat16":
            options |= {"kept": self.kept, "emulates": self._emulates}
        return partial(tuned, **options) if options else tuned

    @cached_property
    def dense(self) -> Any:
        """Makes dense layers."""
        make = self.part("dense", "Dense")
        if self.name != "numba" or self.precision != "bfloat16":
            return make
        from vectorized_ops.numba.compiling.compiler import target_has_amx

        if target_has_amx() and self._winograd:
            return self.part("amx_dense", "rounded_dense")
        return partial(make, kept=self.kept)

    @cached_property
    def pooled_convolution(self) -> Any:
        """Makes convolutions with fused 2x2 max pooling."""
        if self.name != "numba":  # the reference is a definition only
            return None
        make = self.part("pooled_convolution", "pooled_convolution")
        return make if self._winograd else partial(make, algorithm="direct")

    def part(self, module: str, name: str) -> Any:
        """Return an attribute of one of the implementation's modules, None if there is none.

        What "channels_last" lacks is the reference's.
        """
        for package in (self.name, _COMPLETED_BY.get(self.name)):
            found = None if package is None else _attribute(package, module, name)
            if found is not None:
                return found
        return None


def _attribute(package: str, module: str, name: str) -> Any:
    path = f"{__package__}.{package}"
    for step in module.split("."):
        path = f"{path}.{step}"
        if find_spec(path) is None:
            return None
    return getattr(import_module(path), name, None)


def operations(
    name: str, winograd: bool = True, precision: str = "float32", emulates: bool = False
) -> Operations:
    """Return the implementation `name`, one of IMPLEMENTATIONS.

    With the precision "bfloat16", which "numba" alone has, activations and their gradients are
    kept so, rounded to nearest even. Sums are float32, as are parameters and their gradients.

    "numba" measures which algorithm convolves each shape fastest. Without `winograd`, which
    includes Strassen's, it sums directly, with smaller rounding errors. Instructions for bfloat16
    that are asked for and that the processor lacks are computed without them if it `emulates`.

    "channels_last" has the kernels of "numba" for arrays in C order, whose images need no padding:
    it is for small batches.
    """
    if name not in IMPLEMENTATIONS:
        raise OperationError(
            f"unknown implementation {name!r}: expected one of {', '.join(IMPLEMENTATIONS)}"
        )
    if precision != "float32" and (precision not in PRECISIONS or name != "numba"):
        raise OperationError(
            f"precision {precision!r} of implementation {name!r}: expected 'float32', or "
            "'bfloat16' of 'numba'"
        )
    return Operations(name, winograd, precision, emulates)
