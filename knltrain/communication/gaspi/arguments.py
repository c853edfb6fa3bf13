"""Checks of what is given to the one-sided layer, when it is given: all raise CollectiveError."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from knltrain.communication.gaspi.ranks import Bytes
from knltrain.errors import CollectiveError

AnyArray = npt.NDArray[Any]

INT64 = (-(2**63), 2**63 - 1)
"""The least and the largest int64."""


def whole(
    where: str, name: str, value: SupportsIndex, limits: tuple[int, int], more: str = ""
) -> int:
    """Return ``value`` as an int; CollectiveError unless it is a whole number within ``limits``.

    ``where`` begins the error, ``more`` comes after the value or, behind ";", at the end.
    """
    least, most = limits
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        of, _, hint = more.partition(";")
        raise CollectiveError(
            f"{where}: {name}={value!r}{of}: expected {least} to {most}, a whole number"
            f"{';' + hint if hint else ''}"
        )
    return number


def seconds(value: float, name: str = "timeout_seconds") -> float:
    """Return a time limit in seconds; CollectiveError unless it is 0 or more, perhaps infinite."""
    if not isinstance(value, Real) or math.isnan(value) or value < 0:
        raise CollectiveError(f"{name}={value!r}: expected a number of seconds, 0 or more")
    return float(value)


def as_bytes(data: AnyArray, is_written: bool = False) -> Bytes:
    """The bytes of an array; CollectiveError unless it is contiguous, and writable if need be."""
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        kind = getattr(data, "dtype", type(data).__name__)
        raise CollectiveError(f"data of type {kind}: expected a NumPy array of numbers")
    if not data.flags.c_contiguous:
        raise CollectiveError(
            f"data of shape {data.shape} have strides {data.strides}: expected a contiguous array; "
            "np.ascontiguousarray makes one"
        )
    if is_written and not data.flags.writeable:
        raise CollectiveError(
            f"out of shape {data.shape} is read-only: expected an array that may be written; "
            "copy() makes one"
        )
    return data.reshape(-1).view(np.uint8)
