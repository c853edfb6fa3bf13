"""How far a data set is packed, so that an interrupted packing goes on where it was.

The journal lies beside the partial file. Its first line is a digest of what is packed and how. Each
further line is written when the pictures it tells of are on the disk: the sizes of their records,
the checksums of blocks that they completed, and the broken pictures that were skipped. A checksum
leads each line, so one that was not written to its end is no line.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from xxhash import xxh3_64_hexdigest


@final
class Journal:
    """What of a partial file is whole: sizes of records, block checksums of each half, skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes = array("q")
        self.blocks: tuple[list[int], list[int]] = ([], [])
        self.skipped: dict[str, str] = {}

    def load(self, key: str) -> bool:
        """Read what was noted; False if nothing was, or for another `key`."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except OSError:
            return False
        told = [_content(line) for line in lines]
        if not told or told[0] is None or told[0].get("key") != key:
            return False
        kept = len(lines[0]) + 1
        for line, found in zip(lines[1:], told[1:], strict=True):
            if found is None:
                break
            self.sizes.extend(found["sizes"])
            for mine, new in zip(self.blocks, found["blocks"], strict=True):
                mine.extend(new)
            self.skipped.update(found["skipped"])
            kept += len(line) + 1
        with self.path.open("rb+") as file:  # what comes next is not to follow half a line
            file.truncate(kept)
        return True

    def begin(self, key: str) -> None:
        """Forget all, and note what is packed from now on."""
        self.sizes = array("q")
        self.blocks, self.skipped = ([], []), {}
        with suppress(FileNotFoundError):
            self.path.unlink()
        self._append({"key": key})

    def note(
        self, sizes: list[int], blocks: tuple[list[int], list[int]], skipped: Mapping[str, str]
    ) -> None:
        """So many records more, all block checksums up to now, and all skipped pictures."""
        self._append(
            {
                "sizes": sizes,
                "blocks": [
                    now[len(known) :] for now, known in zip(blocks, self.blocks, strict=True)
                ],
                "skipped": {name: why for name, why in skipped.items() if name not in self.skipped},
            }
        )
        self.sizes.extend(sizes)
        self.blocks = (list(blocks[0]), list(blocks[1]))
        self.skipped.update(skipped)

    def remove(self) -> None:
        """Remove the file: the packing has come to its end."""
        with suppress(FileNotFoundError):
            self.path.unlink()

    def _append(self, content: Mapping[str, Any]) -> None:
        told = json.dumps(content).encode()
        with self.path.open("ab") as file:
            file.write(b"%b %b\n" % (xxh3_64_hexdigest(told).encode(), told))
            file.flush()
            os.fsync(file.fileno())


def _content(line: bytes) -> dict[str, Any] | None:
    checksum, _, told = line.partition(b" ")
    if checksum != xxh3_64_hexdigest(told).encode():
        return None
    found: dict[str, Any] = json.loads(told)
    return found
