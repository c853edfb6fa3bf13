from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.framing import Corner, Fitted, Framing, RandomArea, ShortSide
from knltrain.data.augmentation.random_words import RandomWords
from knltrain.data.preprocessing import Draws

PICTURES = 3000


def _random(count: int = PICTURES) -> RandomWords:
    return RandomWords(Draws(4, 2), np.arange(count))


def _sizes(height: int, width: int, count: int = PICTURES) -> np.ndarray:
    return np.tile(np.array([height, width], np.int64), (count, 1))


def test_pictures_of_the_images_size_are_shown_whole() -> None:
    parts = Fitted((28, 28), 2).parts(_sizes(28, 28, 1), None)
    assert parts.boxes.tolist() == [[0, 0, 28, 28]]
    parts = Fitted((224, 224)).parts(_sizes(375, 500, 1), None)
    assert parts.boxes[0] == pytest.approx([0, 62, 375, 375], abs=1)


def test_images_move_by_up_to_the_pixels_asked_for_each_way_alike() -> None:
    boxes = Fitted((32, 32), 4).parts(_sizes(32, 32), _random()).boxes
    assert (boxes[:, 2:] == 32).all()
    places, counts = np.unique(boxes[:, :2], return_counts=True)
    assert places.tolist() == list(range(-4, 5))
    assert counts.min() > 0.8 * counts.mean()
    larger = Fitted((64, 64), 8).parts(_sizes(32, 32), _random()).boxes  # in pixels of the image
    assert (np.abs(larger[:, :2]).max(), larger[0, 2]) == (4, 32)


@pytest.mark.parametrize(
    ("side", "frame"), [(224, 256), (227, 256), (96, 112), (32, 40), (64, 72), (28, 32)]
)
def test_frames_keep_the_proportion_of_256_to_224(side: int, frame: int) -> None:
    parts = ShortSide((side, side)).parts(_sizes(frame, 2 * frame, 1), None)
    assert parts.frames.tolist() == [[frame, 2 * frame]]
    top = (frame - side) // 2
    assert parts.boxes.tolist() == [[top, (2 * frame - side) // 2, side, side]]


def test_crops_of_pictures_of_the_frames_size_are_whole_pixels_anywhere_in_it() -> None:
    parts = ShortSide((224, 224)).parts(_sizes(256, 256), _random())
    assert (parts.boxes[:, 2:] == 224).all()
    assert set(np.unique(parts.boxes[:, :2])) == set(range(33))
    assert np.array_equal(parts.boxes[:, :2], parts.offsets)


def test_sizes_go_from_the_frame_to_the_largest() -> None:
    parts = ShortSide((224, 224), 2.0).parts(_sizes(300, 400), _random())
    short = parts.frames.min(axis=1)
    assert (short.min(), short.max()) == (256, 512)
    assert short.mean() == pytest.approx(384, abs=5)
    assert (parts.offsets >= 0).all()
    assert (parts.offsets + 224 <= parts.frames).all()


def test_random_areas_have_the_areas_and_proportions_of_torchvision() -> None:
    boxes = RandomArea((224, 224)).parts(_sizes(375, 500), _random()).boxes
    ratio, area = boxes[:, 3] / boxes[:, 2], boxes[:, 2] * boxes[:, 3] / (375 * 500)
    assert 0.74 < ratio.min() < 0.77
    assert 1.31 < ratio.max() < 1.35
    assert np.log(ratio).mean() == pytest.approx(0, abs=0.05)  # wide parts fit more often
    assert 0.075 < area.min() < 0.1
    assert area.max() > 0.9
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= [375, 500]).all()
    assert np.array_equal(boxes, np.rint(boxes))


def test_pictures_in_which_no_try_fits_show_their_middle() -> None:
    for (height, width), box in (
        ((10, 1000), [0, 493, 10, 13]),
        ((1000, 10), [493, 0, 13, 10]),
    ):
        boxes = RandomArea((8, 8)).parts(_sizes(height, width, 40), _random(40)).boxes
        assert box in boxes.tolist()


@pytest.mark.parametrize("framing", [Fitted((8, 8), 1), ShortSide((8, 8), 2.0), RandomArea((8, 8))])
def test_a_part_does_not_depend_on_other_pictures(framing: Framing) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(9, 60, (50, 2))
    rows = np.array([3, 41, 17])
    every = framing.parts(sizes, _random(50)).boxes
    few = framing.parts(sizes[rows], RandomWords(Draws(4, 2), rows)).boxes
    assert np.array_equal(few, every[rows])
    assert not np.array_equal(every, framing.parts(sizes, None).boxes)


@pytest.mark.parametrize("framing", [ShortSide((224, 224), 2.0), RandomArea((224, 224))])
@pytest.mark.parametrize(
    ("place", "begin"),
    [((0, 0), (0, 0)), ((0, 1), (0, 96)), ((1, 0), (32, 0)), ((0.5, 0.5), (16, 48))],
)
def test_corners_are_those_of_the_frame(
    framing: Framing, place: tuple[float, float], begin: tuple[int, int]
) -> None:
    parts = Corner(framing, *place).parts(_sizes(256, 320, 1), None)
    assert parts.boxes.tolist() == [[*begin, 224, 224]]
