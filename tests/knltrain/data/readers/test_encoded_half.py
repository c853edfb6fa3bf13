"""Halves are told apart by what was listed, and by their labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.encoded import DecodingRules, EncodedPictures, EncodedSource
from knltrain.data.readers.encoded_half import digest_of, encoded_half
from knltrain.data.readers.files import DataFiles
from knltrain.errors import DataError


class Nothing(EncodedPictures):
    def data(self, row: int) -> bytes:
        return b""

    def name(self, row: int) -> str:
        return f"{row}.jpg"


FILES = DataFiles(Path(), channels=1, decoding=DecodingRules(skip=True))


def half(listed: bytes, *labels: int, names: tuple[str, ...] = ("a", "b")) -> EncodedSource:
    return encoded_half(Nothing(), np.array(labels), names, FILES, listed)


def test_the_users_rules_are_those_of_the_source() -> None:
    found = half(b"1", 0, 1)
    assert (found.channels, found.rules.skip, found.class_names) == (1, True, ("a", "b"))
    assert found.contents().image_shape == (0, 0, 1)


def test_other_files_or_labels_are_other_contents() -> None:
    digests = {half(b"1", 0, 1).contents().digest, half(b"2", 0, 1).contents().digest}
    digests |= {half(b"1", 1, 1).contents().digest, half(b"1", 0, 1).contents().digest}
    digests.add(half(b"1", 0, 1, names=("b", "a")).contents().digest)
    assert len(digests) == 4
    assert digest_of(np.arange(3)) == digest_of(np.arange(6)[:3]) != digest_of(np.arange(4))


def test_a_single_class_is_refused() -> None:
    with pytest.raises(DataError, match=r"0.jpg: all pictures are of class 'cat': expected two"):
        half(b"1", 0, 0, names=("cat",))
