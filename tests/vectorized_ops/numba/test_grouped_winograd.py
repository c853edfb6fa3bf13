"""What is common to Winograd's convolutions of both memory orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.grouped_winograd import MOST_GROUPS, is_square
from vectorized_ops.numba.winograd_convolution import WinogradConvolution
from vectorized_ops.shapes import ConvolutionShape

SHAPE = ConvolutionShape(16, 9, 9, 15, 8, (3, 3), padding=(1, 1))


@pytest.mark.parametrize(
    ("change", "takes"),
    [
        ({}, True),
        ({"padding": (2, 0)}, True),
        ({"kernel": (5, 5), "padding": (0, 4)}, True),
        ({"padding": (0, 3)}, False),
        ({"kernel": (5, 5), "padding": (5, 0)}, False),
        ({"kernel": (3, 1)}, False),
        ({"kernel": (3, 5)}, False),
        ({"kernel": (7, 7)}, False),
        ({"stride": (1, 2)}, False),
        ({"dilation": (2, 1)}, False),
        ({"channels": 8, "groups": MOST_GROUPS}, True),
        ({"channels": 8, "groups": 8}, False),
    ],
)
def test_plain_convolutions_of_three_or_five_taps_are_taken_and_others_refused(
    change: dict[str, Any], takes: bool
) -> None:
    shape = replace(SHAPE, **change)
    assert is_square(shape) is takes
    if not takes:
        with pytest.raises(OperationError, match=r"F\(2x2\) .* use Convolution"):
            WinogradConvolution(shape, 2)
