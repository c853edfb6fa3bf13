"""Which networks have all of their kernels in the cache, and which changes need few new ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from vectorized_ops.numba.compiling.cache_folder import CacheFolder

FEW_KERNELS: Final = 4
"""So many are compiled by the workers that call them, sooner than a process finds all others."""

_FOLDER: Final = "complete"
_State = tuple[int, int, int]
"""A source's bytes, time of change in nanoseconds, and kernels that are compiled from it."""


@final
@dataclass(frozen=True, slots=True)
class KnownKernels:
    """A file in the `cache` that tells that the kernels of a network are there.

    The network is known by the digest `name`. The file has the states of all sources below `root`,
    and for each the number of kernels that are compiled from its code.
    """

    cache: CacheFolder
    name: str
    root: Path

    @property
    def are_compiled(self) -> bool:
        """Whether all kernels are in the cache, but for a few.

        These are the kernels of sources that have been changed since, which are then known in their
        new state. A changed source without kernels can concern all of them, as a plan does.
        """
        known, now = self._known(), self._states()
        if not known or known.keys() != now.keys():
            return False
        changed = [known[source][2] for source, state in now.items() if known[source][:2] != state]
        if not changed:
            return True
        if 0 in changed or sum(changed) > FEW_KERNELS:
            return False
        self._write({source: (*state, known[source][2]) for source, state in now.items()})
        return True

    def keep(self, readers: Mapping[str, int]) -> None:
        """Note that all kernels are compiled; `readers` are their numbers by source file.

        Where nothing can be written, nothing is known.
        """
        counts = {os.path.relpath(file, self.root): count for file, count in readers.items()}
        states = self._states().items()
        self._write({source: (*state, counts.get(source, 0)) for source, state in states})

    @property
    def _path(self) -> Path:
        return self.cache.path / _FOLDER / self.name

    def _known(self) -> dict[str, _State]:
        try:
            found = json.loads(self._path.read_bytes())
            return {str(source): (int(a), int(b), int(c)) for source, (a, b, c) in found.items()}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def _states(self) -> dict[str, tuple[int, int]]:
        found = ((file, file.stat()) for file in self.root.rglob("*.py"))
        return {
            str(file.relative_to(self.root)): (state.st_size, state.st_mtime_ns)
            for file, state in found
        }

    def _write(self, states: Mapping[str, _State]) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=self.cache.folder_mode, exist_ok=True)
            self.cache.put(self._path, json.dumps(states, separators=(",", ":")).encode())
