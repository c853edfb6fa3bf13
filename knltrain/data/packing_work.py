"""What is packed and how, which decides all bytes of a packed file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from xxhash import xxh3_128_hexdigest

from knltrain.data.dataset import Halves
from knltrain.data.packed_format import BLOCK, PAGE, VERSION
from knltrain.data.packed_records import Records, StoredAs

_SAMPLED: Final = 16
"""Pictures of a half by which the size of all is estimated."""
NOTED_BYTES: Final = 64 * 2**20
"""After so much what was written is noted in the journal."""


@dataclass(frozen=True, slots=True)
class PackingWork:
    """What is packed and how: `records` of the training and the test half, by `threads` threads.

    `exif`: encoded pictures are to be turned as it asks when they are read.
    """

    halves: Halves
    stored: StoredAs
    records: tuple[Records, Records]
    exif: bool
    threads: int
    noted_bytes: int = NOTED_BYTES

    def __len__(self) -> int:
        return sum(len(each.source) for each in self.records)

    def key(self) -> str:
        """A digest of what decides the bytes of the file."""
        sources = [(len(each.source), each.image_shape) for each in self.records]
        contents = [asdict(each.source.contents()) for each in self.records]
        told = [VERSION, BLOCK, asdict(self.stored), self.exif, sources, contents]
        labels = [np.ascontiguousarray(each.source.labels).data for each in self.records]
        told += [self.halves.train.class_names, [xxh3_128_hexdigest(each) for each in labels]]
        return xxh3_128_hexdigest(json.dumps(told).encode())

    def size(self) -> int:
        """Bytes of the whole file, estimated by some pictures of each half where sizes differ."""
        total = 2 * PAGE
        for each in self.records:
            count = len(each.source)
            if each.image_shape is not None:
                mean: float = math.prod(each.image_shape)
            else:
                rows = [number * count // _SAMPLED for number in range(min(count, _SAMPLED))]
                mean = sum(len(each.record(row)) for row in rows) / len(rows)
            total += round(count * (mean + 16)) + 4 * PAGE
        return total
