"""What becomes of a picture, by definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import FloatArray
from vectorized_ops.reference.pictures import (
    PicturePass,
    PicturePlan,
    Pixels,
    coloured,
    interpolation,
    resized,
)

MEAN, SCALE = np.array([10, 20, 30], np.float32), np.array([0.5, 0.25, 2], np.float32)


@pytest.fixture
def picture() -> Pixels:
    return np.random.default_rng(1).integers(0, 256, (9, 12, 3), np.uint8)


def _image(
    picture: Pixels,
    box: tuple[float, float, float, float],
    shape: tuple[int, int] = (4, 5),
    flipped: bool = False,
    mean_picture: FloatArray | None = None,
    offset: tuple[int, int] | None = None,
) -> FloatArray:
    out = np.empty((1, *shape, 3), np.float32)
    offsets = None if offset is None else np.array([offset])
    plan = PicturePlan(np.array([box], np.float64), np.array([flipped]), offsets=offsets)
    PicturePass((*shape, 3), MEAN, SCALE, mean_picture).write([picture], plan, out)
    found: FloatArray = out[0]
    return found


def test_a_box_of_whole_pixels_is_copied_and_normalised(picture: Pixels) -> None:
    expected = (picture[3:7, 2:7].astype(np.float32) - MEAN) * SCALE
    assert_array_equal(_image(picture, (3, 2, 4, 5)), expected)
    assert_array_equal(_image(picture, (3, 2, 4, 5), flipped=True), expected[:, ::-1])


def test_beyond_the_picture_all_is_0(picture: Pixels) -> None:
    padded = np.pad(picture, ((2, 2), (3, 3), (0, 0))).astype(np.float32)
    expected = (padded[:4, :5] - MEAN) * SCALE
    assert_array_equal(_image(picture, (-2, -3, 4, 5)), expected)


def test_larger_pictures_are_interpolated_linearly_between_pixel_centres(picture: Pixels) -> None:
    """Beyond the outermost centres a picture is constant."""
    side = 31
    lines, columns = (
        np.clip((np.arange(side) + 0.5) * size / side - 0.5, 0, size - 1) for size in (9, 12)
    )
    down, right = (
        np.maximum(0, 1 - np.abs(places[:, None] - np.arange(size)))
        for places, size in ((lines, 9), (columns, 12))
    )
    expected = np.einsum("yh,xw,hwc->yxc", down, right, picture.astype(np.float64))
    found = resized(picture, np.array([0.0, 0, 9, 12]), (side, side))
    assert_allclose(found, expected, atol=2e-4)


@pytest.mark.parametrize(
    ("box", "shape"), [((0, 0, 40, 60), (17, 21)), ((3.3, 5.25, 30.5, 20), (9, 40))]
)
def test_sizes_are_changed_as_by_pillow(
    box: tuple[float, float, float, float], shape: tuple[int, int]
) -> None:
    """Its lines and columns are rounded to whole numbers twice."""
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(2).integers(0, 256, (40, 60, 3), np.uint8)
    top, left, height, width = box
    sides = (left, top, left + width, top + height)
    expected = image.fromarray(picture).resize(shape[::-1], image.Resampling.BILINEAR, sides)
    found = resized(picture, np.array(box), shape)
    assert_allclose(found, np.asarray(expected, np.float32), atol=1.01)


def test_weights_of_a_pixel_add_up_to_1_within_the_picture() -> None:
    for size, begin, length, count in ((10, 0.0, 10.0, 4), (10, 2.5, 5.0, 13), (7, 0.0, 7.0, 7)):
        for start, weights in interpolation(size, begin, length, count):
            assert 0 <= start < size
            assert weights.sum(dtype=np.float64) == pytest.approx(1)


def test_colours_are_mixed_with_those_of_the_pixel_and_of_the_mean() -> None:
    image = np.random.default_rng(3).normal(size=(3, 4, 3)).astype(np.float32)
    colours, of_mean = (
        np.random.default_rng(4).normal(size=(3, n)).astype(np.float32) for n in (4, 3)
    )
    mean = image.reshape(-1, 3).mean(axis=0)
    expected = image @ colours[:, :3].T + colours[:, 3] + of_mean @ mean
    assert_allclose(coloured(image, colours, of_mean), expected, rtol=1e-4, atol=1e-5)


def test_the_mean_picture_lies_under_the_image_and_is_flipped_with_it(picture: Pixels) -> None:
    mean = np.random.default_rng(5).normal(size=(7, 8, 3)).astype(np.float32)
    whole, box = picture[2:6, 1:6].astype(np.float32), (2, 1, 4, 5)
    expected = (whole - mean[1:5, 2:7]) * SCALE
    for flipped in (False, True):
        found = _image(picture, box, flipped=flipped, mean_picture=mean, offset=(1, 2))
        assert_array_equal(found, expected[:, ::-1] if flipped else expected)
    found = _image(picture, box, mean_picture=mean, offset=(-2, 5))
    edges = mean[np.ix_([0, 0, 0, 1], [5, 6, 7, 7, 7])]
    assert_array_equal(found, (whole - edges) * SCALE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flipped": np.zeros(2, np.bool_)}, r"flipped has the shape \(2,\): expected \(1,\)"),
        ({"boxes": np.array([[0.0, 0, 0, 5]])}, "a box has no height or no width"),
        ({"colours": np.zeros((1, 3, 3), np.float32)}, "colours has the shape"),
    ],
)
def test_plans_that_do_not_fit_are_refused(
    change: dict[str, np.ndarray], message: str, picture: Pixels
) -> None:
    given = {"boxes": np.array([[0.0, 0, 4, 5]]), "flipped": np.zeros(1, np.bool_), **change}
    out = np.empty((1, 4, 5, 3), np.float32)
    with pytest.raises(OperationError, match=message):
        PicturePass((4, 5, 3), MEAN, SCALE).write([picture], PicturePlan(**given), out)


def test_normalisations_and_pictures_that_do_not_fit_are_refused(picture: Pixels) -> None:
    with pytest.raises(OperationError, match=r"normalised by mean \(3,\), scale \(3,\)"):
        PicturePass((4, 5, 1), MEAN, SCALE)
    plan = PicturePlan(np.array([[0.0, 0, 4, 5]]), np.zeros(1, np.bool_))
    with pytest.raises(OperationError, match=r"a picture \(9, 12, 1\) of uint8 was given"):
        PicturePass((4, 5, 3), MEAN, SCALE).write(
            [picture[..., :1]], plan, np.empty((1, 4, 5, 3), np.float32)
        )
