"""Convolution of arrays in C order by the algorithm that is fastest for the shape and direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectorized_ops.channels_last.convolution import Convolution
from vectorized_ops.channels_last.winograd_convolution import WinogradConvolution, winograd_takes
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.tuned_convolution import Arguments, ChosenConvolution, check_algorithms
from vectorized_ops.shapes import ConvolutionShape

ALGORITHMS = ("direct", "winograd2", "winograd4")
"""Direct summation and, where they take the shape, Winograd's F(2x2, r x r) and F(4x4, r x r)."""


class TunedConvolution(ChosenConvolution):
    """See `vectorized_ops.reference.convolution.Convolution`; arrays in C order.

    Of `algorithms` and `asked` see `vectorized_ops.numba.tuned_convolution.TunedConvolution`, of
    NaN and infinity `Convolution` and `WinogradConvolution`.
    """

    def __init__(
        self,
        shape: ConvolutionShape,
        algorithms: tuple[str, ...] = ALGORITHMS,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        check_algorithms(algorithms, ALGORITHMS)
        made: dict[str, Any] = {"direct": Convolution(shape)}
        for name in algorithms:
            if name.startswith("winograd") and winograd_takes(shape):
                made[name] = WinogradConvolution(shape, int(name[-1]))
        arguments = Arguments(shape, aligned_zeros)
        super().__init__(shape, made, asked or {}, arguments, " in channels_last", __name__)
