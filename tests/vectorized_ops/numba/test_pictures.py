"""The compiled pass gives what the definition does, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import FloatArray, aligned_zeros
from vectorized_ops.numba import pictures as module
from vectorized_ops.numba.pictures import PicturePass
from vectorized_ops.pictures import PicturePlan, PicturesOf, Pixels
from vectorized_ops.reference.pictures import PicturePass as ReferencePass

SHAPES = [(5, 4), (9, 40), (3, 64), (6, 17)]
MODES = ["plain", "colours", "of_mean", "mean_picture", "mean_picture colours", "offsets of_mean"]


def _layouts(picture: Pixels) -> Iterator[Pixels]:
    """The same picture in all kinds of memory."""
    planes = np.ascontiguousarray(picture.transpose(2, 0, 1))
    yield picture
    yield np.ascontiguousarray(picture[:, :, ::-1])[:, :, ::-1]
    yield planes.transpose(1, 2, 0)
    yield np.ascontiguousarray(planes[::-1])[::-1].transpose(1, 2, 0)
    yield np.repeat(picture, 2, axis=1)[:, ::2]
    yield np.pad(picture, ((1, 2), (3, 1), (0, 0)))[1:-2, 3:-1]


def _case(rng: np.random.Generator, shape: tuple[int, ...], mode: str) -> dict[str, Any]:
    """Pictures, boxes that are copied and others that are resized, and what `mode` says."""
    height, width, channels = shape
    pictures: list[Pixels] = []
    boxes: list[tuple[float, ...]] = []
    for _ in range(2):
        tall, wide = rng.integers(1, 70, 2)
        for one in _layouts(rng.integers(0, 256, (tall, wide, channels), np.uint8)):
            pictures.append(one)
            copied = (rng.integers(-4, tall), rng.integers(-6, wide), height, width)
            sides = rng.random() * tall + 0.3, rng.random() * 2 * wide + 0.3
            resized = (*(rng.normal(size=2) * 5), *sides)
            boxes.append(copied if rng.random() < 0.5 else resized)
    count = len(pictures)
    given: dict[str, Any] = {
        "boxes": np.array(boxes, np.float64),
        "flipped": rng.random(count) < 0.5,
    }

    def normal(*sizes: int) -> FloatArray:
        return rng.normal(size=sizes).astype(np.float32)

    if "colours" in mode or "of_mean" in mode:
        given["colours"] = normal(count, channels, channels + 1)
    if "of_mean" in mode:
        given["of_mean"] = normal(count, channels, channels)
    if "offsets" in mode:
        given["offsets"] = rng.integers(-3, 5, (count, 2))
    has_mean_picture = "mean_picture" in mode or "offsets" in mode
    return {
        "pictures": pictures,
        "plan": PicturePlan(**given),
        "mean_picture": normal(height + 3, width + 2, channels) if has_mean_picture else None,
    }


def _image(kind: Any, shape: tuple[int, int, int], case: dict[str, Any]) -> FloatArray:
    numbers = np.random.default_rng(9)
    mean, scale = (numbers.normal(size=shape[2]).astype(np.float32) for _ in range(2))
    out = aligned_zeros((len(case["pictures"]), *shape))
    out.fill(77)
    kind(shape, mean, scale, case["mean_picture"]).write(case["pictures"], case["plan"], out)
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", SHAPES)
def test_images_are_those_of_the_reference_to_the_last_bit(
    size: tuple[int, int], channels: int, mode: str
) -> None:
    shape = (*size, channels)
    case = _case(np.random.default_rng((*shape, MODES.index(mode))), shape, mode)
    expected = _image(ReferencePass, shape, case)
    assert_array_equal(_image(PicturePass, shape, case), expected)


@pytest.mark.parametrize("mode", ["plain", "of_mean"])
@pytest.mark.parametrize("shape", [(4, 48, 3), (5, 80, 1)])
def test_stores_past_the_caches_change_nothing(
    monkeypatch: pytest.MonkeyPatch, mode: str, shape: tuple[int, int, int]
) -> None:
    case = _case(np.random.default_rng(3), shape, mode)
    expected = _image(PicturePass, shape, case)
    monkeypatch.setattr(module, "streamed", lambda *_: True)
    assert_array_equal(_image(PicturePass, shape, case), expected)


def test_room_grows_with_the_pictures() -> None:
    shape, mean = (8, 8, 3), np.zeros(3, np.float32)
    made, scale = PicturePass(shape, mean, mean + 1), mean + 1
    for side in (9, 300, 20):
        picture = np.random.default_rng(side).integers(0, 256, (side, side, 3), np.uint8)
        plan = PicturePlan(np.array([[0.0, 0, side, side]]), np.zeros(1, np.bool_))
        found, expected = np.empty((2, 1, *shape), np.float32)
        made.write([picture], plan, found)
        ReferencePass(shape, mean, scale).write([picture], plan, expected)
        assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [(9, 40), (12, 50)])
@pytest.mark.parametrize("layout", ["interleaved", "reversed", "planes", "apart"])
def test_pictures_of_one_array_are_those_of_a_list(layout: str, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    pixels = rng.integers(0, 256, (7, *size, 3), np.uint8)
    if layout == "planes":
        pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    elif layout == "apart":
        pixels = np.repeat(pixels, 2, axis=2)[:, :, ::2]
    some = PicturesOf(pixels, np.array([5, 0, 5, 6]))
    some = some.reversed() if layout == "reversed" else some
    plan = PicturePlan(np.tile([0.0, 1.0, 9.0, 40.0], (4, 1)), np.array([True, False] * 2))
    shape, mean = (9, 40, 3), np.arange(3, dtype=np.float32)
    outs = [np.full((4, *shape), np.nan, np.float32) for _ in range(3)]
    PicturePass(shape, mean, mean + 1).write(some, plan, outs[0])
    PicturePass(shape, mean, mean + 1).write(list(some), plan, outs[1])
    ReferencePass(shape, mean, mean + 1).write(some, plan, outs[2])
    assert_array_equal(outs[0], outs[1])
    assert_array_equal(outs[0], outs[2])


@pytest.mark.parametrize("row", [-1, 3])
def test_pictures_that_are_not_there_are_refused(row: int) -> None:
    some = PicturesOf(np.zeros((3, 2, 2, 1), np.uint8), np.array([0, row]))
    plan = PicturePlan(np.tile([0.0, 0, 2, 2], (2, 1)), np.zeros(2, np.bool_))
    made = PicturePass((2, 2, 1), np.zeros(1, np.float32), np.ones(1, np.float32))
    with pytest.raises(IndexError, match="of 3"):
        made.write(some, plan, np.zeros((2, 2, 2, 1), np.float32))


def test_no_pictures_are_no_work() -> None:
    plan = PicturePlan(np.empty((0, 4)), np.empty(0, np.bool_))
    PicturePass((2, 2, 1), np.zeros(1, np.float32), np.ones(1, np.float32)).write(
        [], plan, np.empty((0, 2, 2, 1), np.float32)
    )


@pytest.mark.parametrize(
    "out", [np.empty((1, 2, 4, 1), np.float32)[:, :, ::2], np.empty((1, 2, 2, 1))]
)
def test_memory_that_cannot_be_written_in_one_piece_is_refused(out: np.ndarray) -> None:
    plan = PicturePlan(np.array([[0.0, 0, 2, 2]]), np.zeros(1, np.bool_))
    made = PicturePass((2, 2, 1), np.zeros(1, np.float32), np.ones(1, np.float32))
    with pytest.raises(OperationError, match="expected float32, one value after another"):
        made.write([np.zeros((2, 2, 1), np.uint8)], plan, out)
