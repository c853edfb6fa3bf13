from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.shapes import ConvolutionShape

SHAPE = ConvolutionShape(20, 5, 6, 4, 6, (3, 2), groups=2)


def good() -> dict[str, np.ndarray]:
    return {
        "images": activations((20, 5, 6, 4)),
        "outputs": activations((20, 3, 5, 6)),
        "weights": np.zeros((6, 2, 3, 2), np.float32),
        "bias": np.zeros(6, np.float32),
        "mask": activations((20, 5, 6, 4)),
    }


def test_padded_images_and_slices_are_taken() -> None:
    Operands(SHAPE).check(**good())
    wide = activations((20, 5, 6, 9))
    Operands(SHAPE).check(**{**good(), "images": wide[..., 2:6], "mask": None, "bias": None})


@pytest.mark.parametrize(
    ("name", "wrong", "expected"),
    [
        ("images", activations((16, 5, 6, 4)), r"\(32, 5, 6, 4\)"),
        ("images", activations((20, 6, 5, 4)), r"\(32, 5, 6, 4\)"),
        ("outputs", activations((20, 5, 6, 6)), r"\(32, 3, 5, 6\)"),
        ("outputs", activations((20, 3, 5, 6), np.uint8), "float32"),
        ("mask", activations((20, 5, 6, 5)), r"\(32, 5, 6, 4\)"),
        ("weights", np.zeros((6, 4, 3, 2), np.float32), r"\(6, 2, 3, 2\)"),
        ("weights", np.zeros((6, 2, 3, 2)), "float32"),
        ("weights", np.zeros((6, 2, 2, 3), np.float32).transpose(0, 1, 3, 2), "in C order"),
        ("bias", np.zeros(12, np.float32)[::2], "in C order"),
        ("bias", np.zeros(5, np.float32), r"\(6,\)"),
    ],
)
def test_what_kernels_would_read_or_write_elsewhere_is_refused(
    name: str, wrong: np.ndarray, expected: str
) -> None:
    with pytest.raises(OperationError, match=rf"{name} of shape .* expected shape .*{expected}"):
        Operands(SHAPE).check(**{**good(), name: wrong})
