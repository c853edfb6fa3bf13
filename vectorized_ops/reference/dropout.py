"""Dropout, defined (Srivastava et al. 2014), with decisions that any kernel can recompute."""

from __future__ import annotations

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient

MULTIPLIERS = (0x21F0AAAD, 0xD35A2D97)
SHIFTS = (16, 15, 15)
"""Of the 32-bit hash x ^= x >> 16, x *= m1, x ^= x >> 15, x *= m2, x ^= x >> 15: a bijection with
little bias (C. Wellons, "Prospecting for Hash Functions", and its later search results)."""

BELOW = 2**32
KEY_OFFSET = 0x9E3779B9


def hashed(numbers: AnyArray) -> AnyArray:
    """Return the hash of each number, uint32."""
    mixed: AnyArray = numbers ^ (numbers >> np.uint32(SHIFTS[0]))
    for multiplier, shift in zip(MULTIPLIERS, SHIFTS[1:], strict=True):
        mixed = mixed * np.uint32(multiplier)
        mixed = mixed ^ (mixed >> np.uint32(shift))
    return mixed


def key_halves(key: int) -> tuple[int, int]:
    """Return the lower and the upper 32 bits; OperationError unless 0 <= key < 2^64."""
    if not 0 <= key < BELOW**2:
        raise OperationError(
            f"dropout was given the key {key}: expected 0 <= key < 2^64; take it modulo 2^64"
        )
    return int(key) % BELOW, int(key) // BELOW


def mixed_key(key: int) -> np.uint32:
    """Return the 32 bits that stand for a key; OperationError unless 0 <= key < 2^64."""
    low, high = key_halves(key)
    mixed: np.uint32 = np.uint32(hashed_number(low ^ hashed_number(high ^ KEY_OFFSET)))
    return mixed


def hashed_number(number: int) -> int:
    """Return what `hashed` does; an array of one number takes ten times as long as a number.

    Numba compiles it too.
    """
    mixed = number ^ number >> SHIFTS[0]
    for i in range(len(MULTIPLIERS)):
        mixed = mixed * MULTIPLIERS[i] % BELOW
        mixed ^= mixed >> SHIFTS[i + 1]
    return mixed


def drop_below(rate: float) -> np.uint32:
    """Return the number below which a hash means "drop"; OperationError unless 0 <= rate < 1."""
    if not 0 <= rate < 1:
        raise OperationError(
            f"dropout with rate {rate} was asked for: expected 0 <= rate < 1, the share of values "
            "that become zero"
        )
    bound: np.uint32 = np.uint32(min(round(rate * BELOW), BELOW - 1))
    return bound


class Dropout:
    """Values of which a share `rate` becomes zero, the others divided by 1 - rate.

    The value with number i in the logical order of its array (n*H*W*C + y*W*C + x*C + c, or
    n*I + i; modulo 2^32) is dropped if hashed(i ^ mixed_key(key)) < drop_below(rate): nothing is
    stored, all implementations decide alike, and the factor 1 / (1 - rate) is rounded to float32.
    In part of a larger array n counts from `first_image`, the image of it that the part begins
    with. values, gradient and out (N, H, W, C) or (N, I) float32. Raises OperationError for a rate
    outside 0 <= rate < 1.

    With `per_image` all values of an image are dropped or none (stochastic depth, Huang et al.,
    ECCV 2016): the number i is that of the image.
    """

    def __init__(self, rate: float, per_image: bool = False) -> None:
        self._drop_below, self._factor = drop_below(rate), 1 / (1 - rate)
        self._per_image = per_image

    def forward(self, values: AnyArray, out: AnyArray, key: int, first_image: int = 0) -> None:
        """Write the values that are kept, and zeros; `out` may be `values`.

        Each step and each layer needs a key of its own, 0 <= key < 2^64.
        """
        out[...] = self._kept(values, key, first_image)

    def backward(
        self,
        gradient: AnyArray,
        out: AnyArray,
        key: int,
        add: bool = False,
        mask: AnyArray | None = None,
        first_image: int = 0,
    ) -> None:
        """Write the gradient of the values that were kept under this key, and zeros.

        Without `add`, `out` may be `gradient`. `add` and `mask` as in
        `vectorized_ops.reference.gradient.write_gradient`.
        """
        write_gradient(self._kept(gradient, key, first_image), out, add, mask)

    def _kept(self, values: AnyArray, key: int, first_image: int) -> AnyArray:
        size = 1 if self._per_image else values.size // len(values)
        first, last = first_image * size, (first_image + len(values)) * size
        numbers = np.arange(first, last).astype(np.uint32)
        shape = (-1, *[1] * (values.ndim - 1)) if self._per_image else values.shape
        numbers = numbers.reshape(shape)
        keep = hashed(numbers ^ mixed_key(key)) >= self._drop_below
        return np.where(keep, values * self._factor, 0)
