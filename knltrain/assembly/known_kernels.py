"""Which networks have all of their kernels in the cache, and which changes need few new ones."""

from __future__ import annotations

import hashlib
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
_OF_KERNELS: Final = {"kernels", "emit"}
"""Folders whose sources have nothing but what kernels are compiled from; others also make plans."""

_State = tuple[str, int]
"""A digest of a source, and the number of kernels that are compiled from it alone."""


@final
@dataclass(frozen=True, slots=True)
class KnownKernels:
    """A file in the `cache` that tells that the kernels of a network are there.

    The network is known by the digest `name`. The file has the states of all sources below `root`,
    and for each the number of kernels that are compiled from its code; 0 for sources whose changes
    can concern all kernels, as plans.
    """

    cache: CacheFolder
    name: str
    root: Path

    def are_compiled(self) -> bool:
        """Tell whether all kernels are in the cache, but for a few.

        These are the kernels of sources that have been changed since, which are then known in their
        new state.
        """
        known, now = self._known(), self._digests()
        if not known or known.keys() != now.keys():
            return False
        changed = [known[source][1] for source, digest in now.items() if known[source][0] != digest]
        if not changed:
            return True
        if 0 in changed or sum(changed) > FEW_KERNELS:
            return False
        self._write({source: (digest, known[source][1]) for source, digest in now.items()})
        return True

    def keep(self, readers: Mapping[str, int]) -> None:
        """Note that all kernels are compiled; `readers` are their numbers by source file.

        Where nothing can be written, nothing is known.
        """
        counts = {
            os.path.relpath(file, self.root): count
            for file, count in readers.items()
            if not _OF_KERNELS.isdisjoint(Path(file).parts)
        }
        digests = self._digests().items()
        self._write({source: (digest, counts.get(source, 0)) for source, digest in digests})

    @property
    def _path(self) -> Path:
        return self.cache.path / _FOLDER / self.name

    def _known(self) -> dict[str, _State]:
        try:
            found = json.loads(self._path.read_bytes())
            return {str(source): (str(a), int(b)) for source, (a, b) in found.items()}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def _digests(self) -> dict[str, str]:
        """Of the content of each source: times differ between installations of the same one."""
        return {
            str(file.relative_to(self.root)): hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            for file in self.root.rglob("*.py")
        }

    def _write(self, states: Mapping[str, _State]) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=self.cache.folder_mode, exist_ok=True)
            self.cache.put(self._path, json.dumps(states, separators=(",", ":")).encode())
