"""What local response normalisations have in common, defined."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


class ResponseNormalisation(ABC):
    """y = x * s^-beta, with s = bias + share * window of x^2.

    A window is a sum, or a mean, of the values around each.
    """

    def __init__(self, share: float, beta: float, bias: float) -> None:
        self._share, self._beta, self._bias = share, beta, bias

    @abstractmethod
    def _window(self, values: AnyArray) -> AnyArray:
        """Return the window around each value, values outside being 0."""

    @np.errstate(invalid="ignore")
    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write y; `out` must not overlap `values`."""
        out[...] = values * self._scales(values) ** -self._beta

    @np.errstate(invalid="ignore")
    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient * s^-beta - 2*share*beta * values * window of gradient * y/s.

        s is computed from `values` again; `out` must overlap neither argument. `add` and `mask` as
        in `vectorized_ops.reference.gradient.write_gradient`.
        """
        scales = self._scales(values)
        slopes = self._window(gradient * values * scales ** (-self._beta - 1))
        factor = 2 * self._share * self._beta
        value = gradient * scales**-self._beta - factor * values * slopes
        write_gradient(value, out, add, mask)

    def _scales(self, values: AnyArray) -> AnyArray:
        scales: AnyArray = self._bias + self._share * self._window(values**2)
        return scales
