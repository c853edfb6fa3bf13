"""Contents tell data sets apart by what is in them, not by how they are stored or called."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from knltrain.data import contents as module
from knltrain.data.contents import DataContents, contents_of, sampled

IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
LABELS = np.array([0, 1, 2, 1], np.uint8)


@pytest.fixture
def contents() -> DataContents:
    half = contents_of(IMAGES, LABELS)
    return DataContents("mnist", half, contents_of(IMAGES[:1], LABELS[:1]))


def test_same_images_and_labels_are_the_same_however_they_lie_in_memory() -> None:
    expected = contents_of(IMAGES, LABELS)
    assert contents_of(np.asfortranarray(IMAGES), LABELS.astype(np.int64)) == expected
    assert (expected.images, expected.image_shape) == (4, (2, 3, 1))
    assert contents_of(IMAGES[..., None], LABELS).image_shape == (2, 3, 1)


def test_other_pixel_label_shape_or_number_is_another_content() -> None:
    brighter, relabelled = IMAGES.copy(), LABELS.copy()
    brighter[3, 1, 2] += 1
    relabelled[3] += 1
    cases = (
        (IMAGES, LABELS),
        (brighter, LABELS),
        (IMAGES, relabelled),
        (IMAGES.reshape(4, 3, 2), LABELS),
        (IMAGES[:3], LABELS[:3]),
    )
    assert len({contents_of(*case) for case in cases}) == len(cases)


def test_name_does_not_matter_but_both_halves_do(contents: DataContents) -> None:
    assert contents.same_as(replace(contents, name="other"))
    assert not contents.same_as(replace(contents, test=contents.train))
    assert not contents.same_as(replace(contents, train=contents.test))


def test_contents_come_back_from_json(contents: DataContents) -> None:
    assert DataContents.from_fields(json.loads(json.dumps(asdict(contents)))) == contents
    with pytest.raises(KeyError):
        DataContents.from_fields({"name": "mnist"})


def test_contents_are_told_with_sizes_and_digests(contents: DataContents) -> None:
    digest = contents.train.digest[:8]
    assert f"'mnist' with 4 images of 2 x 3 x 1 (digest {digest}) for training and 1 " in str(
        contents
    )


def test_of_large_sets_some_images_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampled(3) == [0, 1, 2]
    rows = sampled(10_000)
    assert (len(rows), rows[0], rows[-1]) == (1_000, 0, 9_990)
    monkeypatch.setattr(module, "_WHOLE_BYTES", 1)
    images, labels = np.zeros((10_000, 1, 2), np.uint8), np.zeros(10_000)
    before = contents_of(images, labels)
    images[1] = 1
    assert contents_of(images, labels) == before
    images[9_990] = 1
    assert contents_of(images, labels) != before
