from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.channels_last.activation import Activation
from vectorized_ops.channels_last.addition import add
from vectorized_ops.channels_last.affine import Affine
from vectorized_ops.channels_last.neighbours import as_images
from vectorized_ops.channels_last.rectifier import Rectifier
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import pixels


@pytest.mark.parametrize("shape", [(1, 3, 4, 8), (4, 12), (48,), (20, 1, 1, 24)])
def test_arrays_without_gaps_are_vectors_of_16_images(shape: tuple[int, ...]) -> None:
    first, second = np.zeros(shape, np.float32), np.arange(np.prod(shape)).reshape(shape)
    seen = as_images(first, second.astype(np.float32))
    assert seen is not None
    assert [view.shape for view in seen] == [(16, first.size // 16)] * 2
    flat, _ = pixels(seen[1])
    assert flat.tolist() == list(range(first.size))
    seen[0][:] = 1
    assert first.all()


@pytest.mark.parametrize("channels", [16, 48])
def test_slices_are_pixels_that_lie_apart(channels: int) -> None:
    wide = np.zeros((3, 2, 5, 80), np.float32)
    part, whole = wide[..., 7 : 7 + channels], np.zeros((3, 2, 5, channels), np.float32)
    seen = as_images(part, whole)
    assert seen is not None
    assert [pixels(view)[1] for view in seen] == [80, channels]
    seen[0][...] = 1
    assert part.all()
    assert wide.sum() == part.size


def test_what_has_no_whole_vectors_is_not_seen_so() -> None:
    wide = np.zeros((2, 2, 2, 40), np.float32)
    assert as_images(wide[..., :24]) is None
    assert as_images(wide[:1, :1, :1, :20].copy()) is None
    with pytest.raises(OperationError, match=r"expected \(2, 2, 2, 40\)"):
        as_images(wide, wide[..., :16])


@pytest.mark.parametrize("images", [1, 4, 20])
@pytest.mark.parametrize("channels", [1, 3, 16, 24, 40, 64])
def test_operations_on_slices_are_those_on_copies(images: int, channels: int) -> None:
    rng, wide = np.random.default_rng(channels), (images, 3, 5, channels + 9)
    first, second, out = (rng.standard_normal(wide).astype(np.float32) for _ in range(3))
    parts = [array[..., 2 : 2 + channels] for array in (first, second, out)]
    copies = [part.copy() for part in parts]
    around = out.copy()
    for values, other, to in (parts, copies):
        add(values, other, to, relu=True)
        Affine(0.5, 1.0).backward(values, to, add=True, mask=other)
        Rectifier(0.25).backward(values, other, to, add=True)
        Activation("tanh").backward(values, other, to, add=True)
    np.testing.assert_allclose(parts[2], copies[2], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(out[..., :2], around[..., :2])
    np.testing.assert_array_equal(out[..., 2 + channels :], around[..., 2 + channels :])
