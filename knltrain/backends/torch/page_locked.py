"""Locks arrays of the host into memory, so that a GPU copies them by itself.

From other memory the driver copies through a buffer of its own, at a fraction of the speed, and the
caller waits. A mapping must be unlocked before it is unmapped.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch

_PORTABLE: Final = 1
"""cudaHostRegisterPortable: for all contexts of the process."""
_LOCKED_BEFORE: Final = 712
"""cudaErrorHostMemoryAlreadyRegistered."""

LEAST_BYTES = 1 << 16
"""Smaller arrays share their pages with others, and take no time."""


@final
class PageLocked:
    """The arrays that are locked, each once, until `close`; their pages stay where they are.

    Of more than `most` the oldest are unlocked. `driver` locks and unlocks as CUDA's runtime does;
    by default it is that of the device, and nothing is locked for others than GPUs. Where it
    refuses, standard error says so once, and copies take the slower way.
    """

    def __init__(self, device: torch.device, most: int, driver: Any = None) -> None:
        if driver is None and device.type == "cuda":
            driver = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        self._driver, self._device, self._most = driver, device, most
        self._locked: dict[tuple[int, int], npt.NDArray[Any]] = {}
        self._refused = False

    def lock(self, array: npt.NDArray[np.generic]) -> None:
        """Lock an array's memory, unless it is locked or small."""
        place = array.ctypes.data, array.nbytes
        is_small = array.nbytes < LEAST_BYTES
        if self._driver is None or self._refused or is_small or place in self._locked:
            return
        if len(self._locked) == self._most:
            self._unlock(next(iter(self._locked)))
        with self._current():
            code = int(self._driver.cudaHostRegister(*place, _PORTABLE))
        if code == 0:
            self._locked[place] = array
            return
        with suppress(RuntimeError):  # CUDA tells the error once more, to whoever comes next.
            torch.zeros(1, dtype=torch.float32, device=self._device)
        if code == _LOCKED_BEFORE:
            return
        self._refused = True
        print(
            f"{self._device}: {array.nbytes} bytes cannot be locked into memory (CUDA error {code};"
            " `ulimit -l` may be the reason): copies to and from it are slower",
            file=sys.stderr,
        )

    def close(self) -> None:
        """Unlock all."""
        for place in list(self._locked):
            self._unlock(place)

    def _unlock(self, place: tuple[int, int]) -> None:
        with self._current():
            self._driver.cudaHostUnregister(place[0])
        del self._locked[place]

    def _current(self) -> AbstractContextManager[object]:
        """Let the driver use this device, and make no context on another one."""
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()
