"""Finds out which kernels some work needs: a dry run records kernels instead of calling them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

from vectorized_ops.numba.compiling.cache import EntryNames, SharedKernels

LEAST_SIZE: Final = 1000
"""Size of a kernel without any code, or of a tile, beside the bytes of Python's code in others."""


@dataclass(frozen=True, slots=True)
class WantedKernel:
    """A kernel for one signature, under its names in the cache.

    `make` loads it, or compiles and keeps it. Of twice the `size` it takes about twice as long.
    `sources` are the files with the code that it is compiled from.
    """

    names: EntryNames
    told: tuple[str, str]
    size: int
    sources: frozenset[str]
    make: Callable[[], object]
    shared: SharedKernels


@final
class Recorder:
    """The kernels that were wanted so far, each once, in the order of their first calls.

    `has_tiles` tells whether the kernels' tiles are there, so that they are not wanted.
    """

    def __init__(self, has_tiles: bool = False) -> None:
        self.has_tiles = has_tiles
        self._wanted: dict[str, WantedKernel] = {}
        self._met: set[object] = set()

    @property
    def wanted(self) -> list[WantedKernel]:
        """All of them."""
        return list(self._wanted.values())

    def note(self, called: object, wanted: Callable[[], WantedKernel]) -> None:
        """Record that a kernel is wanted; it is described only at the first `called`."""
        if called not in self._met:
            self._met.add(called)
            kernel = wanted()
            self._wanted.setdefault(kernel.names.own, kernel)


_recorders: list[Recorder] = []


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record kernels instead of calling them, anywhere in the process.

    Kernels that are already loaded for the types of their arguments are called as usual, though
    their tiles do nothing. Otherwise memory is unchanged and results are zeros. This is for a
    process that does nothing else afterwards.
    """
    with _active(Recorder()) as recorder:
        yield recorder


def prepare(work: Callable[[], object]) -> None:
    """Load or compile the kernels that `work` calls and that are not loaded yet.

    They are not called within `work`, whose results are zeros and useless.
    """
    with _active(Recorder(has_tiles=True)) as recorder:
        work()
    for wanted in recorder.wanted:
        wanted.make()


@contextmanager
def _active(recorder: Recorder) -> Iterator[Recorder]:
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.remove(recorder)


def active_recorder() -> Recorder | None:
    """Return that of the innermost `recording`, if there is one."""
    return _recorders[-1] if _recorders else None
