"""Preprocessing is told as Caffe's data layers would be given it."""

from __future__ import annotations

import numpy as np

from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.interchange.caffe.transforming import transform_comment
from knltrain.vectors import FloatArray


def told(
    deviations: tuple[float, ...], reverses: bool = True, picture: FloatArray | None = None
) -> list[str]:
    scale = (1 / np.array(deviations)).astype(np.float32)
    normalisation = Normalisation(np.array([104, 117, 123], np.float32), scale, picture)
    known = ModelPreprocessing((227, 227, 3), (256, 256), reverses, normalisation, ("a", "b"))
    return transform_comment(known).splitlines()


def test_caffe_nets_of_imagenet_get_caffe_words() -> None:
    assert told((1.0, 1.0, 1.0)) == [
        "# Images: the middle 227 x 227 of a picture that is resized to just hold 256 x 256.",
        "# Channels: blue, green, red.",
        "# transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 1 "
        "crop_size: 227 }",
    ]
    assert "scale: 0.00390625 " in told((256.0,) * 3)[-1]


def test_what_caffe_has_no_word_for_is_told() -> None:
    lines = told((1.0, 2.0, 4.0), reverses=False)
    assert lines[1:3] == [
        "# Channels: red, green, blue.",
        "# Divide the channels by 1, 2, 4 afterwards, for which Caffe has no word.",
    ]
    assert "scale" not in lines[-1]
    lines = told((1.0,) * 3, picture=np.zeros((256, 256, 3), np.float32))
    assert "# The mean is a picture (mean_file)." in lines
    assert "mean_value" not in lines[-1]


def test_grey_images_without_a_frame_are_not_cropped() -> None:
    one = np.ones(1, np.float32)
    known = ModelPreprocessing((28, 28, 1), None, False, Normalisation(one, one), ("a", "b"))
    assert transform_comment(known).splitlines() == [
        "# Images: the middle 28 x 28 of a picture that is resized to just hold 28 x 28.",
        "# transform_param { mean_value: 1 scale: 1 }",
    ]
