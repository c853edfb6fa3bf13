"""Many short texts, such as the names of pictures, in two arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt


@final
@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one after another: bytes uint8 (all lengths), and where each ends, int64 (n,).

    A million of them take no Python objects. Names of files that are no UTF-8 come back as they
    were (surrogateescape).
    """

    content: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Keep `texts`, in their order."""
        encoded = [os.fsencode(text) for text in texts]
        ends = np.cumsum([len(each) for each in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        begin = self.ends[number - 1] if number else 0
        return os.fsdecode(self.content[begin : self.ends[number]].tobytes())


def shown(name: str) -> str:
    """A name of a file as text that can be written anywhere: bytes that are no UTF-8 as \\xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
