"""Some channels of maps in another order, defined: slices and shuffles of channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


def check_chosen(chosen: Sequence[int]) -> None:
    """Raise OperationError unless these are different channels, at least one."""
    if not chosen or min(chosen) < 0 or len(set(chosen)) < len(chosen):
        raise OperationError(
            f"channels {list(chosen)} were chosen: expected one or more numbers from 0 on, none of "
            "them twice"
        )


def check_selected(values: AnyArray, selected: AnyArray, chosen: Sequence[int]) -> None:
    """Raise OperationError unless `selected` has the chosen channels' shape, and `values` them."""
    fits = selected.shape == (*values.shape[:-1], len(chosen))
    if not fits or max(chosen) >= values.shape[-1]:
        raise OperationError(
            f"{len(chosen)} channels, the last of them {max(chosen)}, were to be chosen of "
            f"{values.shape} for {selected.shape}: expected as many images, lines and pixels, and "
            f"channels below {values.shape[-1]}"
        )


class ChannelSelection:
    """The channels `chosen` of maps (N, H, W, C) or vectors (N, C), in that order; all float32.

    A slice chooses neighbours, a shuffle all channels. Raises OperationError for channels that are
    below 0 or chosen twice.
    """

    def __init__(self, chosen: Sequence[int]) -> None:
        check_chosen(chosen)
        self._chosen = list(chosen)

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write the chosen channels; `out` must not overlap `values`."""
        check_selected(values, out, self._chosen)
        out[...] = values[..., self._chosen]

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient to the channels that were chosen, zero to the others.

        `out` must not overlap `gradient`. `add` and `mask` as in
        `vectorized_ops.reference.gradient.write_gradient`.
        """
        check_selected(out, gradient, self._chosen)
        value = np.zeros_like(out)
        value[..., self._chosen] = gradient
        write_gradient(value, out, add, mask)
