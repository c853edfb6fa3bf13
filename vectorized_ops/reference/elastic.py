"""Elastic and plain averaging between workers, defined in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def synchronous_elastic_update(
    locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32], moving_rate: float
) -> None:
    """Pull P locals and their center towards each other, all from the values before the call.

    With moving rate α and e_i = α (local_i − center): local_i −= e_i, center += e_0 + e_1 + ...
    added in rank order. ``locals_`` has shape (P, n), ``center`` (n,), both float32, no overlap.
    The elastic terms of Zhang, Choromanska, LeCun 2015, equations (5) and (6).
    """
    rate = np.float32(moving_rate)
    total = np.zeros_like(center)
    for local in locals_:
        pull = rate * (local - center)
        local -= pull
        total += pull
    center += total


def synchronous_average(locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32]) -> None:
    """Set the center and all P locals to the mean of the locals, added in rank order.

    ``locals_`` has shape (P, n), ``center`` (n,), both float32, no overlap. What the center held
    before does not matter.
    """
    center[:] = 0
    for local in locals_:
        center += local
    center /= np.float32(len(locals_))
    locals_[:] = center


def synchronous_model_average(
    locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32]
) -> None:
    """As `synchronous_average`, by differences from the first local: equal values stay as they are.

    Otherwise what no worker has moved, such as frozen parameters, would be off by a rounding error
    after each exchange of four workers or more.
    """
    first, total = locals_[0].copy(), np.zeros_like(center)
    for local in locals_[1:]:
        total += local - first
    center[:] = first + total / np.float32(len(locals_))
    locals_[:] = center


def synchronous_sum(locals_: npt.NDArray[np.float32], center: npt.NDArray[np.float32]) -> None:
    """Set the center and all P locals to the sum of the locals, added in rank order.

    ``locals_`` has shape (P, n), ``center`` (n,), both float32, no overlap. What the center held
    before does not matter.
    """
    center[:] = 0
    for local in locals_:
        center += local
    locals_[:] = center


def elastic_update(
    local: npt.NDArray[np.float32], center: npt.NDArray[np.float32], moving_rate: float
) -> None:
    """Pull one local and the center towards each other: e = α (local − center) goes over.

    ``local`` and ``center`` have shape (n,), float32, no overlap. The asynchronous exchange of
    Zhang, Choromanska, LeCun 2015, Algorithm 1; You, Buluc, Demmel 2017, equation (2') with the
    elastic term of (1).
    """
    pull = np.float32(moving_rate) * (local - center)
    local -= pull
    center += pull


def elastic_increment(
    local: npt.NDArray[np.float32],
    center: npt.NDArray[np.float32],
    increment: npt.NDArray[np.float32],
    moving_rate: float,
) -> None:
    """Move one local towards the center by α (local − center), and write that to ``increment``.

    All have shape (n,), float32, no overlap. Each element of ``center`` is read once, and may be
    written by others meanwhile. Ahn, Kim, Kang, Lim, "ShmCaffe", ICDCS 2018, equations (5) and (6).
    """
    increment[:] = np.float32(moving_rate) * (local - center)
    local -= increment
