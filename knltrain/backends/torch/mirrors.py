"""The vectors of a worker as PyTorch sees them: in the host's memory itself, or on a device.

A device computes with copies of the host's arrays. What it computes stays there until the host
needs it, if the vector is followed; otherwise it is copied at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Final, Literal, final

import torch

from knltrain.backends.backend import Ready
from knltrain.backends.torch.arithmetic import MirroredArithmetic
from knltrain.backends.torch.device_layout import PLAIN, DeviceLayout
from knltrain.backends.torch.devices import failures_told
from knltrain.backends.torch.page_locked import PageLocked
from knltrain.backends.torch.progress import Mark, Marks
from knltrain.backends.torch.streams import SideStream
from knltrain.errors import DeviceError
from knltrain.vectors import DeviceArithmetic, FloatArray, VectorSpace

HOST: Final = torch.device("cpu")
_FLOAT_BYTES = 4
MOST_LOCKED = 64
"""Vectors: more than a worker has."""


@dataclass(slots=True)
class _Pair:
    host: torch.Tensor
    there: torch.Tensor
    newest: Literal["host", "there", "both"] = "host"


@final
class Mirrors(VectorSpace):
    """Host arrays as tensors on a device, found by the arrays' addresses.

    On the host a tensor is the array's own memory, and nothing is copied. With ``are_apart`` even
    the host has copies, as a device has: for tests.

    Of arrays that are not followed, the host's values are the newest between two calls. All arrays
    keep their copies until `close`: views on these must not outlive them. `layout` is the
    order of values there.
    """

    def __init__(self, device: torch.device = HOST, are_apart: bool = False) -> None:
        self.device = device
        self.layout = PLAIN
        self.are_apart = are_apart or device.type != "cpu"
        self._pairs: dict[int, _Pair] = {}
        self._followed: set[int] = set()
        self._locked = PageLocked(device, MOST_LOCKED)
        self._side = SideStream(device)
        self._copying, self._is_open = RLock(), True

    @property
    def arithmetic(self) -> DeviceArithmetic | None:
        """That of exchanges on followed vectors, if they have copies."""
        return MirroredArithmetic(self) if self.are_apart else None

    def arrange(self, layout: DeviceLayout) -> None:
        """Let copies have this order of values; to be called before there are any."""
        if self.are_apart and layout != self.layout:
            assert not self._pairs, "copies have another order already"
            self.layout = layout

    def follow(self, *vectors: FloatArray) -> None:
        """From here on the newest values of these arrays may be on the device alone."""
        if self._is_open and all(each.ctypes.data in self._followed for each in vectors):
            return  # without waiting for a thread that copies
        with self._while_open():
            for vector in vectors:
                if self.are_apart and vector.ctypes.data not in self._followed:
                    self._locked.lock(vector)
                    self._followed.add(vector.ctypes.data)

    def to_host(self, *vectors: FloatArray) -> None:
        """Bring the newest values into these arrays; returns once they are there."""
        if self._is_open and not self._newest("there", vectors):
            return
        with self._while_open(), failures_told(self.device):
            for pair in self._newest("there", vectors):
                self.layout.to_host(pair.host, pair.there)
                pair.newest = "both"

    def changed(self, *vectors: FloatArray) -> None:
        """Take the arrays' values on the host as the newest."""
        for pair in self._followed_of(vectors):
            pair.newest = "host"

    def computed(self, *vectors: FloatArray) -> None:
        """Take the values of followed arrays on the device as the newest."""
        for pair in self._followed_of(vectors):
            pair.newest = "there"

    def send(self, *vectors: FloatArray) -> None:
        """Let the device have the newest values of followed arrays."""
        if self._is_open and not self._newest("host", vectors):
            return
        with self._while_open():
            for vector in vectors:
                if vector.ctypes.data in self._followed:
                    self.load(vector)

    def beside(self) -> AbstractContextManager[None]:
        """Let a thread copy in the body, beside what the device computes after this call."""
        return self._side.behind()

    def load(self, vector: FloatArray) -> None:
        """Let the device have the newest values; the array may be written afterwards."""
        pair = self._pair_of(vector)
        if self.are_apart and pair.newest == "host":
            self.layout.to_device(pair.there, pair.host)
            if vector.ctypes.data in self._followed:
                pair.newest = "both"

    def store(self, vector: FloatArray) -> None:
        """Take the device's values as the newest."""
        if not self.are_apart:
            return
        pair = self._pair_of(vector)
        if vector.ctypes.data in self._followed:
            pair.newest = "there"
        else:
            self.layout.to_host(pair.host, pair.there)

    def hand_over(
        self, vector: FloatArray, there: torch.Tensor, marks: Marks, ready: Ready
    ) -> None:
        """Bring a vector to the host part by part, as marks say that they are done.

        `there` has its values on the device, and `ready` is called with the offset of each part.
        """
        pair, end = self._pair_of(vector), len(vector)
        for offset, done in [*marks, Mark(0, None)]:
            with self._side.behind(done):
                self.layout.to_host(pair.host, there, offset, end)
            pair.newest = "both"
            ready(offset)
            end = offset

    def load_into(self, place: torch.Tensor, vector: FloatArray) -> None:
        """Copy the newest values into a tensor on the device."""
        if vector.ctypes.data in self._followed:
            self.load(vector)
            place.copy_(self.packed(vector))
        else:
            self.layout.to_device(place, torch.from_numpy(vector))

    def store_from(self, place: torch.Tensor, vector: FloatArray) -> None:
        """Take the values of a tensor on the device as the newest."""
        if vector.ctypes.data in self._followed:
            self.packed(vector).copy_(place)
            self.store(vector)
        else:
            self.layout.to_host(torch.from_numpy(vector), place)

    def packed(self, vector: FloatArray) -> torch.Tensor:
        """The vector (n,) on the device, in the order of `layout`."""
        return self._pair_of(vector).there

    def view(self, vector: FloatArray, part: FloatArray) -> torch.Tensor:
        """The part of the device's vector at the place of ``part``, a view on the host's."""
        if not self.are_apart:
            return torch.from_numpy(part)
        offset = (part.ctypes.data - vector.ctypes.data) // _FLOAT_BYTES
        strides = [stride // _FLOAT_BYTES for stride in part.strides]
        strides = self.layout.strides(vector.shape[-1], part.shape, strides)
        found = self.packed(vector).as_strided(part.shape, strides, offset)
        return found.data  # so that autograd takes no write elsewhere in the vector for one here

    def close(self) -> None:
        """Release the device's memory, and the arrays; threads that copy later fail."""
        with self._copying:
            self._is_open = False
            self._locked.close()
            self._pairs.clear()
            self._followed.clear()

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Hold `close` back in the body; DeviceError behind it."""
        with self._copying:
            if not self._is_open:
                raise DeviceError(f"{self.device}: its vectors were released")
            yield

    def _newest(self, where: str, vectors: tuple[FloatArray, ...]) -> list[_Pair]:
        """The followed ones among these arrays whose newest values are there alone."""
        return [pair for pair in self._followed_of(vectors) if pair.newest == where]

    def _followed_of(self, vectors: tuple[FloatArray, ...]) -> list[_Pair]:
        return [self._pair_of(each) for each in vectors if each.ctypes.data in self._followed]

    def _pair_of(self, vector: FloatArray) -> _Pair:
        found = self._pairs.get(vector.ctypes.data)
        if found is None or found.host.shape != vector.shape:
            host = torch.from_numpy(vector)
            with failures_told(self.device):
                there = torch.zeros_like(host, device=self.device) if self.are_apart else host
            found = self._pairs[vector.ctypes.data] = _Pair(host, there)
        return found
