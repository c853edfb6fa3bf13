"""Slices and shuffles of channels: one read and one write, neighbours together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.selection_tiles import selected_tile
from vectorized_ops.reference.selection import check_chosen, check_selected

_NOTHING = -1


class ChannelSelection:
    """See `vectorized_ops.reference.selection.ChannelSelection`; images run fastest in memory."""

    def __init__(self, chosen: Sequence[int]) -> None:
        check_chosen(chosen)
        self._chosen, self._channels = list(chosen), 0
        self._there = self._back = self._added = _runs(self._chosen)

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write the chosen channels."""
        check_selected(values, out, self._chosen)
        self._deliver(values, out, self._there, False, None)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write, or add to `out`, the gradient at the channels chosen, zero at the others."""
        check_selected(out, gradient, self._chosen)
        if self._channels != out.shape[-1]:
            sources = [_NOTHING] * out.shape[-1]
            for place, channel in enumerate(self._chosen):
                sources[channel] = place
            self._channels, self._back = out.shape[-1], _runs(sources)
            self._added = self._back[self._back[:, 1] != _NOTHING]  # zeros change nothing
        runs = self._added if add and mask is None else self._back
        self._deliver(gradient, out, runs, add, mask)

    def _deliver(
        self,
        values: AnyArray,
        out: AnyArray,
        runs: npt.NDArray[np.int64],
        add: bool,
        mask: AnyArray | None,
    ) -> None:
        source, target = pixels(values), pixels(out)
        cut = target if mask is None else pixels(mask)
        number, count = out.shape[0], out[0, ..., 0].size
        past = not add and streamed(target[0], out.nbytes, source[0])
        _moved(
            *source, *target, *cut, count, number, runs, add, mask is not None, past,
            numba.get_num_threads(),
        )  # fmt: skip


def _runs(sources: Sequence[int]) -> npt.NDArray[np.int64]:
    """Neighbouring channels that stay neighbours: rows of (first, first source, how many)."""
    found: list[list[int]] = []
    for channel, source in enumerate(sources):
        if found:
            _, first, count = found[-1]
            follows = first + count if first != _NOTHING else _NOTHING
            if source == follows:
                found[-1][2] += 1
                continue
        found.append([channel, source, 1])
    return np.array(found, np.int64)


@parallel_kernel
def _moved(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    pixels: int,
    row: int,
    runs: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    for thread in numba.prange(threads):
        for pixel in range(part(pixels, thread, threads), part(pixels, thread + 1, threads)):
            selected_tile(
                out, pixel * out_distance, mask, pixel * mask_distance, values, pixel * distance,
                runs, len(runs), row, distance, add, masked, past,
            )  # fmt: skip
        finish_stores()
