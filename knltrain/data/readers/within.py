"""Whether paths stay in a folder, links followed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import final


@final
class Within:
    """Tells of names whether they lie below `root`; folders are looked at once."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))
        self._known: dict[str, Path] = {}

    def has(self, name: str) -> bool:
        """Whether the file `name`, relative to the root, or what it links to, lies below it.

        A name that no file can have does.
        """
        folder, file = os.path.split(name)
        if folder not in self._known:
            self._known[folder] = Path(os.path.realpath(self._root / folder))
        path = self._known[folder] / file
        try:
            if path.is_symlink() or file in ("", ".", ".."):
                path = Path(os.path.realpath(path))
        except OSError:  # as for a name that is too long, which is no file
            return True
        return path.is_relative_to(self._root)
