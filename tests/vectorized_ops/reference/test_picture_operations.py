"""Operations are those of Pillow, of which RandAugment was made, within a grey level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.picture_operations import ONE, Kind, OperationPlan, operated


def operated_alone(picture: np.ndarray, kind: Kind, *numbers: int) -> np.ndarray:
    given = np.zeros((1, 1, 6), np.int64)
    given[0, 0, : len(numbers)] = numbers
    out = np.empty((1, *picture.shape), np.uint8)
    operated(picture[None].astype(np.float32), OperationPlan(np.array([[kind]]), given), out)
    return out[0]


@pytest.fixture
def picture() -> np.ndarray:
    """A texture with dark and bright parts, of which no value is at the ends of the scale."""
    y, x = np.mgrid[:37, :41]
    planes = [90 + 60 * np.sin(x / (3 + c)) + 40 * np.cos(y / (4 + c)) for c in range(3)]
    return np.stack(planes, axis=2).clip(8, 230).astype(np.uint8)


@pytest.mark.parametrize(
    ("kind", "numbers", "expected"),
    [
        (Kind.SAME, (), lambda image: image),
        (
            Kind.BRIGHTNESS,
            (ONE * 3 // 2,),
            lambda image: ImageEnhance.Brightness(image).enhance(1.5),
        ),
        (Kind.SATURATION, (ONE // 5,), lambda image: ImageEnhance.Color(image).enhance(0.2)),
        (Kind.SATURATION, (ONE * 2,), lambda image: ImageEnhance.Color(image).enhance(2)),
        (Kind.CONTRAST, (ONE * 7 // 4,), lambda image: ImageEnhance.Contrast(image).enhance(1.75)),
        (Kind.SHARPNESS, (ONE * 2,), lambda image: ImageEnhance.Sharpness(image).enhance(2)),
        (Kind.SHARPNESS, (ONE // 4,), lambda image: ImageEnhance.Sharpness(image).enhance(0.25)),
        (Kind.POSTERIZE, (0xE0,), lambda image: ImageOps.posterize(image, 3)),
        (Kind.SOLARIZE, (100,), lambda image: ImageOps.solarize(image, 100)),
        (Kind.AUTOCONTRAST, (), ImageOps.autocontrast),
        (Kind.EQUALIZE, (), ImageOps.equalize),
    ],
)
def test_values_are_those_of_pillow(
    picture: np.ndarray,
    kind: Kind,
    numbers: tuple[int, ...],
    expected: Callable[[Image.Image], Image.Image],
) -> None:
    found = operated_alone(picture, kind, *numbers).astype(int)
    of_pillow = np.asarray(expected(Image.fromarray(picture))).astype(int)
    assert np.abs(found - of_pillow).max() <= 1
    if kind in (Kind.POSTERIZE, Kind.SOLARIZE, Kind.EQUALIZE):
        np.testing.assert_array_equal(found, of_pillow)
    assert (kind is Kind.SAME) == (found == picture).all()


@pytest.mark.parametrize(
    "affine",
    [
        (1, 0.3, 0, 0, 1, 0),
        (1, 0, 0, -0.2, 1, 0),
        (1, 0, 7, 0, 1, -9),
        (0.9, 0.4, -3, -0.4, 0.9, 8),
    ],
)
def test_pixels_move_as_pillow_moves_them(picture: np.ndarray, affine: tuple[float, ...]) -> None:
    a, b, c, d, e, f = affine
    of_centres = (a, b, c + (a + b) / 2, d, e, f + (d + e) / 2)
    found = operated_alone(picture, Kind.MOVED, *(round(ONE * each) for each in of_centres))
    moved = Image.fromarray(picture).transform(
        (41, 37), Image.Transform.AFFINE, affine, Image.Resampling.NEAREST
    )
    assert (found == np.asarray(moved)).all(axis=2).mean() > 0.99  # places between two pixels


def test_flat_and_tiny_pictures_keep_their_values() -> None:
    flat = np.full((4, 5, 1), 77, np.uint8)
    for kind in (Kind.AUTOCONTRAST, Kind.EQUALIZE, Kind.SHARPNESS):
        np.testing.assert_array_equal(operated_alone(flat, kind, 3 * ONE), flat)
    tiny = np.array([[[3], [9]]], np.uint8)
    np.testing.assert_array_equal(operated_alone(tiny, Kind.SHARPNESS, 3 * ONE), tiny)


def test_one_comes_after_another_and_floats_are_rounded() -> None:
    images = np.array([100.4, 200.6, -3.0, 300.0], np.float32).reshape(1, 2, 2, 1)
    kinds = np.array([[Kind.SOLARIZE, Kind.POSTERIZE]])
    numbers = np.zeros((1, 2, 6), np.int64)
    numbers[0, :, 0] = 150, 0xF0
    out = np.empty((1, 2, 2, 1), np.uint8)
    operated(images, OperationPlan(kinds, numbers), out)
    assert out.ravel().tolist() == [100 & 0xF0, (255 - 201) & 0xF0, 0, 0]


@pytest.mark.parametrize(
    ("kinds", "numbers", "out", "said"),
    [
        ((2, 1), (2, 1, 6), (1, 3, 3, 1), "out has the shape"),
        ((1, 1), (2, 1, 6), (2, 3, 3, 1), "kinds has the shape"),
        ((2, 3), (2, 1, 6), (2, 3, 3, 1), "numbers has the shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(kinds, numbers, out, said) -> None:
    plan = OperationPlan(np.zeros(kinds, np.int64), np.zeros(numbers, np.int64))
    with pytest.raises(OperationError, match=said):
        operated(np.zeros((2, 3, 3, 1), np.float32), plan, np.empty(out, np.uint8))
    with pytest.raises(OperationError, match="expected 0 to 9"):
        operated_alone(np.zeros((3, 3, 1), np.uint8), 10)  # type: ignore[arg-type]
