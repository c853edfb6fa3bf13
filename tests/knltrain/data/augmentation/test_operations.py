"""Operations of RandAugment: functions of seed, epoch and picture, with torchvision's ranges."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.operations import LARGEST, SPACE, random_operations
from knltrain.data.augmentation.random_words import RandomWords
from knltrain.data.preprocessing import Draws
from vectorized_ops.reference.picture_operations import ONE, Kind, OperationPlan, operated

IMAGE = (100, 200)


def _drawn(count: int, magnitude: int = 9, epoch: int = 0, images: int = 3000) -> OperationPlan:
    return random_operations(
        RandomWords(Draws(1, epoch), np.arange(images)), count, magnitude, IMAGE
    )


def test_each_operation_is_as_likely_and_has_both_signs() -> None:
    plan = _drawn(2)
    counts = np.bincount(plan.kinds.ravel(), minlength=len(Kind))
    kinds = [kind for kind, _, _ in SPACE.values()]
    for kind in Kind:
        assert counts[kind] / plan.kinds.size == pytest.approx(kinds.count(kind) / 14, abs=0.02)
    lighter = plan.numbers[plan.kinds == Kind.BRIGHTNESS][:, 0] > ONE
    assert lighter.mean() == pytest.approx(0.5, abs=0.1)
    both = np.corrcoef(plan.kinds.T)[0, 1]
    assert abs(both) < 0.05


def test_a_picture_has_its_own_in_each_epoch() -> None:
    few, many = _drawn(2, images=10), _drawn(2, images=50)
    np.testing.assert_array_equal(few.kinds, many.kinds[:10])
    np.testing.assert_array_equal(few.numbers, many.numbers[:10])
    assert (_drawn(2, epoch=1).kinds != _drawn(2).kinds).mean() > 0.5


@pytest.mark.parametrize(
    ("name", "magnitude", "expected"),
    [
        # torchvision 0.28, transforms/autoaugment.py, RandAugment._augmentation_space: 31 bins
        ("brightness", 9, [1 + 0.9 * 9 / 30]),
        ("sharpness", 30, [1.9]),
        ("posterize", 9, [(256 - 2) / ONE]),  # 8 - round(9 / 7.5) = 7 bits
        ("posterize", 30, [(256 - 16) / ONE]),  # 4 bits
        ("solarize", 9, [round(255 - 255 * 9 / 30) / ONE]),
        ("shear_x", 30, [1, 0.3, 0.65, 0, 1, 0.5]),
        ("translate_x", 30, [1, 0, 0.5 + int(150 / 331 * 200), 0, 1, 0.5]),
        ("translate_y", 30, [1, 0, 0.5, 0, 1, 0.5 + int(150 / 331 * 100)]),
    ],
)
def test_ranges_are_those_of_torchvision(name: str, magnitude: int, expected) -> None:
    numbers = SPACE[name][2](magnitude / LARGEST, *IMAGE)
    np.testing.assert_allclose(np.array(numbers) / ONE, expected, atol=1 / ONE)


def test_a_turn_keeps_the_middle_and_moves_the_corners() -> None:
    image = np.zeros((1, 101, 101, 1), np.float32)
    image[0, 50, 50] = image[0, 49:52, 9:12] = 255
    numbers = np.rint(SPACE["rotate"][2](1.0, 101, 101)).astype(np.int64).reshape(1, 1, 6)
    out = np.empty(image.shape, np.uint8)
    operated(image, OperationPlan(np.array([[Kind.MOVED]]), numbers), out)
    assert out[0, 50, 50, 0] == 255
    out[0, 50, 50] = 0
    line, column, _ = np.argwhere(out[0] == 255).mean(axis=0)
    turned = np.degrees(np.arctan2(50 - line, 50 - column))
    assert abs(turned) == pytest.approx(30, abs=1)
    assert np.hypot(line - 50, column - 50) == pytest.approx(40, abs=1)
