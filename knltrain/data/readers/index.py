"""What was found in a data set's folder or files, kept in the user's cache for the next start."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

SETTLED_SECONDS = 2.0
"""Files that were changed within this time may change again without showing it (git's rule)."""

_FORMAT = 1
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError)


def index_folder() -> Path | None:
    """Where indexes are kept, beside the compiled kernels: ~/.cache/knltrain/indexes.

    None where the user has no home.
    """
    try:
        return Path("~/.cache/knltrain/indexes").expanduser()
    except RuntimeError:
        return None


def load_index(key: str) -> Arrays | None:
    """The arrays that were kept by `key`; None if there are none, or they are damaged."""
    path = _path(key)
    if path is None:
        return None
    try:
        content = io.BytesIO(path.read_bytes())
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except _DAMAGED:
        return None


def save_index(key: str, arrays: Arrays) -> None:
    """Keep `arrays` for `load_index`; does nothing where that cannot be done.

    Other processes see the whole file or none.
    """
    path = _path(key)
    if path is None:
        return
    content = io.BytesIO()
    # Names are our own: none is an argument of NumPy's.
    np.savez(content, **arrays)  # type: ignore[arg-type]
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.getbuffer())
            Path(partial).replace(path)
        except OSError:
            Path(partial).unlink(missing_ok=True)
            raise


def _path(key: str) -> Path | None:
    folder = index_folder()
    if folder is None:
        return None
    name = xxh3_128(f"{_FORMAT} {key}".encode("utf-8", "surrogateescape")).hexdigest()
    return folder / f"{name}.npz"
