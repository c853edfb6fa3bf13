"""A model's preprocessing comes back from its file to the bit, and what is no such file is told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from knltrain.data.augmentation.augmenting import Augmenting
from knltrain.data.augmentation.framing import RandomArea, ShortSide
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.augmentation.recipes import RECIPES
from knltrain.data.given_pictures import GivenPictures
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.errors import DataError
from vectorized_ops.reference.pictures import PicturePass

MEAN = np.array([123.675, 116.28, 103.53], np.float32)
SCALE = (1 / np.array([58.395, 57.12, 57.375])).astype(np.float32)


def known(**changes: Any) -> ModelPreprocessing:
    fields: dict[str, Any] = {
        "image_shape": (12, 16, 3),
        "frame": (24, 24),
        "reverses": True,
        "normalisation": Normalisation(MEAN, SCALE),
        "class_names": ("köder", 'a "b"', "1"),
        "exif": True,
    }
    return ModelPreprocessing(**{**fields, **changes})


@pytest.mark.parametrize("with_picture", [False, True])
def test_all_comes_back_to_the_bit(with_picture: bool) -> None:
    picture = np.random.default_rng(1).random((24, 24, 3), np.float32) if with_picture else None
    given = known(normalisation=Normalisation(MEAN, SCALE, picture))
    found = ModelPreprocessing.from_json(given.to_json(), "here")
    for name in ("image_shape", "frame", "reverses", "class_names", "exif", "channel_order"):
        assert getattr(found, name) == getattr(given, name)
    np.testing.assert_array_equal(found.normalisation.mean, MEAN)
    np.testing.assert_array_equal(found.normalisation.scale, SCALE)
    if picture is None:
        assert found.normalisation.mean_picture is None
    else:
        np.testing.assert_array_equal(found.normalisation.mean_picture, picture)


@pytest.mark.parametrize("scale", [1 / 58.395, 1 / 256, 0.017, 1e-30, 3e20])
def test_deviations_give_the_same_scale_again(scale: float) -> None:
    scales = np.float32(scale) * np.linspace(1, 2, 3, dtype=np.float32)
    given = known(normalisation=Normalisation(MEAN, scales))
    found = ModelPreprocessing.from_json(given.to_json(), "here")
    np.testing.assert_array_equal(found.normalisation.scale, scales)


@pytest.mark.parametrize("name", RECIPES)
def test_images_are_those_of_the_recipe_in_evaluation(name: str) -> None:
    recipe = RECIPES[name]((12, 16), 0)
    given = known(frame=recipe.framing.still_frame, reverses=False)
    normalisation = given.normalisation
    rng = np.random.default_rng(2)
    pictures = [rng.integers(0, 256, (h, w, 3)).astype(np.uint8) for h, w in ((40, 50), (9, 31))]
    images = np.zeros((2, 2, 12, 16, 3), np.float32)
    for one, out in zip((recipe, given.recipe()), images, strict=True):
        made = Augmenting((12, 16, 3), one, normalisation, PicturePass)
        made.write(GivenPictures(pictures, 3), np.arange(2), None, out)
    np.testing.assert_array_equal(images[0], images[1])


def test_frames_are_told_in_pixels() -> None:
    assert ShortSide((227, 227)).still_frame == (256, 256)
    assert RandomArea((224, 224)).still_frame == (256, 256)
    assert ShortSide((20, 20), frame=(10, 40)).still_frame == (20, 40)


def test_grey_has_no_order_of_channels() -> None:
    assert known(image_shape=(12, 16, 1)).channel_order == "grey"
    assert (known().channel_order, known(reverses=False).channel_order) == ("bgr", "rgb")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format 2"),
        ({"resize": "cubic"}, "resize 'cubic'"),
        ({"mean": [1.0]}, "3 means"),
        ({"deviation": [1.0, 0.0, 1.0]}, "above 0"),
        ({"mean": [1.0, float("nan"), 1.0]}, "finite means"),
        ({"image": [3, 4]}, "no preprocessing"),
        ({"channel_order": "gbr"}, "'gbr'"),
        ({"mean_picture": {"shape": [2, 2, 3], "float32": "AAAA"}}, "no preprocessing"),
        ({"class_names": None}, "no preprocessing"),
    ],
)
def test_other_files_are_refused(change: dict[str, Any], said: str) -> None:
    fields = {**json.loads(known().to_json()), **change}
    with pytest.raises(DataError, match=rf"^run/preprocessing\.json: .*{said}"):
        ModelPreprocessing.from_json(json.dumps(fields), "run/preprocessing.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", "[" * 100_000], ids=range(5))
def test_texts_without_fields_are_refused(text: str) -> None:
    with pytest.raises(DataError, match="no preprocessing of a model"):
        ModelPreprocessing.from_json(text, "here")
