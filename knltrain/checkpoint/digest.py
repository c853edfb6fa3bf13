"""The digest of a checkpoint's file, by XXH3, which is as fast as memory.

It detects damage by disks and networks, not deliberate changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

DIGEST = "digest"
"""The key of a file's own digest, which is that of all else in it."""


def digest_of_tensors(
    tensors: Iterable[tuple[str, npt.NDArray[Any]]], metadata: Mapping[str, str]
) -> str:
    """The digest of a file of named tensors: names, types, shapes and values, and its metadata.

    It does not depend on their order. Each tensor is read once and may then be released.
    """
    parts = sorted(f"{name} {_digest_of_tensor(values)}" for name, values in tensors)
    others = {key: value for key, value in metadata.items() if key != DIGEST}
    return digest_of_text({"tensors": parts, "metadata": others})


def digest_of_text(fields: Mapping[str, Any]) -> str:
    """The digest of a JSON object, without the digest that it may contain."""
    others = {key: value for key, value in fields.items() if key != DIGEST}
    return xxh3_128(json.dumps(others, sort_keys=True).encode()).hexdigest()


def _digest_of_tensor(values: npt.NDArray[Any]) -> str:
    found = xxh3_128(f"{values.dtype.str} {values.shape} ".encode())
    found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()
