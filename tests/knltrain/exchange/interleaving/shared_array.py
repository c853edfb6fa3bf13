"""NumPy arrays that tell of every access to the memory under them."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import numpy as np
from interleaving.steps import Location

WORD_SHIFT, LINE_SHIFT = 3, 6
"""A word has 2^3 bytes, a cache line 2^6."""


class Witness(Protocol):
    """Who is told."""

    def read(self, part: SharedArray) -> None:
        """Hear that an array is going to be read plainly."""

    def write(self, part: SharedArray) -> None:
        """Hear that it is going to be written."""

    def is_shared_word(self, word: Location) -> bool:
        """Whether a word is read and written at once by design, also by plain accesses."""

    def load(self, words: SharedArray, index: int, *, acquire: bool) -> int:
        """Read such a word."""

    def store(self, words: SharedArray, index: int, value: int, *, release: bool) -> None:
        """Write such a word."""


class SharedArray(np.ndarray):
    """An array, or a part of one, in cells of whole words ("word") or cache lines ("line")."""

    witness: Witness
    shift: int

    @classmethod
    def over(cls, array: np.ndarray, witness: Witness, shift: int) -> SharedArray:
        found = array.view(cls)
        found.witness, found.shift = witness, shift
        return found

    def __array_finalize__(self, made_from: Any) -> None:
        self.witness = getattr(made_from, "witness", None)
        self.shift = getattr(made_from, "shift", 0)
        self._known_address = 0

    def word(self, index: int) -> Location:
        return "word", self._address() + index * self.strides[0] >> WORD_SHIFT

    def cells(self) -> tuple[Location, ...]:
        return _cells(self._address(), self.shape, self.strides, self.shift)

    def _address(self) -> int:
        if not self._known_address:
            self._known_address = self.__array_interface__["data"][0]
        return self._known_address

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int) and self.ndim == 1:
            if not 0 <= key < self.size:
                raise IndexError(f"{key} of {self.size}")  # tells iterators that it is over
            if self.witness.is_shared_word(self.word(key)):
                return self.witness.load(self, key, acquire=False)
            self.witness.read(super().__getitem__(slice(key, key + 1)))
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, int) and self.ndim == 1:
            if self.witness.is_shared_word(self.word(key)):
                self.witness.store(self, key, int(value), release=False)
                return
            value = _read(value)
            self.witness.write(super().__getitem__(slice(key, key + 1)))
        else:
            self._set_part(super().__getitem__(key), value)
            return
        super().__setitem__(key, value)

    def _set_part(self, part: SharedArray, value: Any) -> None:
        """Set plain cells at once, words that are shared by design one after another."""
        if any(map(self.witness.is_shared_word, part.cells())):
            for index in range(part.size):
                part[index] = value
            return
        plain = _read(value)
        self.witness.write(part)
        part.raw()[...] = plain

    def fill(self, value: Any) -> None:
        self.witness.write(self)
        super().fill(value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        read = [_read(each) for each in inputs]
        out = options.pop("out", None)
        if out is None:
            return getattr(ufunc, method)(*read, **options)
        written = tuple(_written(each) for each in out)
        getattr(ufunc, method)(*read, out=written, **options)
        return out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.copyto:
            values = [_read(each) for each in args[1:]]
            return np.copyto(_written(args[0]), *values, **kwargs)
        return function(*map(_read, args), **kwargs)

    def raw(self) -> np.ndarray:
        """The array itself, for those who set up and look at executions from outside."""
        return self.view(np.ndarray)


@functools.cache
def _cells(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], shift: int
) -> tuple[Location, ...]:
    offsets = np.zeros(1, np.int64)
    for length, stride in zip(shape, strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(length) * stride).ravel()
    name = "word" if shift == WORD_SHIFT else "line"
    return tuple((name, number) for number in np.unique(address + offsets >> shift).tolist())


def _read(value: Any) -> Any:
    if not isinstance(value, SharedArray):
        return value
    value.witness.read(value)
    return value.raw().copy()  # as it is now, should it be written before it is used


def _written(value: Any) -> Any:
    if not isinstance(value, SharedArray):
        return value
    value.witness.write(value)
    return value.raw()
