"""One half of a data set of encoded pictures, from what a reader found of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.readers.files import DataFiles
from knltrain.errors import DataError


def encoded_half(
    pictures: EncodedPictures,
    labels: npt.NDArray[np.int64],
    class_names: tuple[str, ...],
    files: DataFiles,
    listed: bytes,
) -> EncodedSource:
    """A source of `pictures`, told apart by `listed`, a digest, the labels (n,) and the classes.

    Not by all their bytes: to read them would take as long as an epoch. Raises DataError for a
    single class.
    """
    if len(class_names) == 1:
        raise DataError(
            f"{pictures.name(0)}: all pictures are of class '{class_names[0]}': expected two "
            "classes or more"
        )
    digest = xxh3_128(listed)
    digest.update(np.ascontiguousarray(labels).data)
    digest.update("\0".join(class_names).encode())
    contents = HalfContents(len(labels), (0, 0, files.channels), digest.hexdigest())
    return EncodedSource(pictures, labels, class_names, files.channels, contents, files.decoding)


def digest_of(*arrays: npt.NDArray[Any]) -> bytes:
    """A digest of the contents of `arrays`."""
    found = xxh3_128()
    for each in arrays:
        found.update(np.ascontiguousarray(each).data)
    return found.digest()
