"""Addition: where two branches of a network join."""

from __future__ import annotations

from vectorized_ops.channels_last.neighbours import as_images
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba import addition as kernels
from vectorized_ops.reference import addition as definition


def add(left: AnyArray, right: AnyArray, out: AnyArray, relu: bool = False) -> None:
    """See `vectorized_ops.reference.addition.add`; `out` may be `left` or `right`."""
    seen = as_images(left, right, out)
    if seen is None:
        definition.add(left, right, out, relu)
    else:
        first, second, target = seen
        kernels.add(first, second, target, relu)
