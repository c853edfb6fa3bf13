from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.readers import arrays
from knltrain.data.readers.arrays import are_whole, array_source, check_room, in_bytes
from knltrain.errors import DataError

from .written import check, pictures


def test_arrays_are_not_copied_whatever_their_layout() -> None:
    pixels, labels = pictures(5)
    planar = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    for given, layout in ((pixels, "nhwc"), (planar, "nchw")):
        source = array_source(given, labels, "here", layout=layout)
        check(source, pixels, labels)
        assert np.shares_memory(source.pixels, given)
    bgr = array_source(pixels[..., ::-1], labels, "here", channel_order="bgr")
    check(bgr, pixels, labels)


def test_grey_arrays_need_no_axis_of_channels() -> None:
    pixels, labels = pictures(5, channels=1)
    source = array_source(pixels[..., 0], labels, "here", channel_order="bgr")
    check(source, pixels, labels)
    assert source.image_shape == (5, 6, 1)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 5, 5), np.float32), 2, r"images are float32.*\(images \* 255\)"),
        (np.zeros((2, 5, 5), np.int64), 2, r"images are int64, expected uint8.*astype"),
        (np.zeros((2, 5, 5, 4), np.uint8), 2, r"\(N, H, W, C\) = \(2, 5, 5, 4\): expected 1 or 3"),
        (np.zeros((2, 0, 5), np.uint8), 2, "at least one pixel"),
        (np.zeros((2, 25), np.uint8), 2, r"shape \(2, 25\)"),
        (np.zeros((2, 5, 5), np.uint8), 3, "2 images, but 3 labels"),
        (np.zeros((0, 5, 5), np.uint8), 0, "here: there are no images"),
    ],
)
def test_other_arrays_are_refused(images: np.ndarray, labels: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        array_source(images, np.zeros(labels, np.int64), "here")


def test_labels_without_a_length_are_refused() -> None:
    with pytest.raises(DataError, match=r"here: labels have shape \(\)"):
        array_source(np.zeros((2, 5, 5), np.uint8), np.array(3), "here")


def test_floats_that_were_bytes_become_bytes() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    assert are_whole(pixels.astype(np.float32))
    assert not are_whole(pixels / np.float32(255))
    np.testing.assert_array_equal(in_bytes(pixels.astype(np.float32), 1, "here"), pixels)
    np.testing.assert_array_equal(in_bytes(pixels / np.float32(255), 255, "here"), pixels)


@pytest.mark.parametrize("value", [-1.0, 256.0, 0.5, float("nan"), float("inf")])
def test_other_floats_are_refused_with_their_range(value: float) -> None:
    with pytest.raises(DataError, match=r"here: values from .* images are float32"):
        in_bytes(np.array([0, value], np.float32), 1, "here")


def test_arrays_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "available_bytes", lambda: 2048)
    check_room(2048, "here")
    with pytest.raises(DataError, match=r"here: its images take 2.0 KiB.* 2.0 KiB are free"):
        check_room(2049, "here")
