"""A key-value store in a folder, for processes of one machine: quick to start."""

from __future__ import annotations

import os
from pathlib import Path

from knltrain.communication.rendezvous.key_value_store import KeyValueStore


class FolderStore(KeyValueStore):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, value: str) -> None:
        whole = self._folder / f"{key}.{os.getpid()}"
        whole.write_text(value, encoding="utf-8")
        whole.rename(self._folder / key)

    def get(self, key: str) -> str | None:
        try:
            return (self._folder / key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
