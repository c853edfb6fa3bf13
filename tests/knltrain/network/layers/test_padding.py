from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import Padding


def test_sides_are_added() -> None:
    layer = Padding("p", 1, 2, 3, 0)
    assert layer.sides == (1, 2, 3, 0)
    assert layer.output_shape(((5, 6, 7),)) == (8, 9, 7)
    shape = layer.operation(2, ((5, 6, 7),))
    assert shape.outputs == (2, 8, 9, 7)
    assert shape.costs["forward"].compulsory_bytes == 4 * 2 * 7 * (5 * 6 + 8 * 9)


def test_value_is_zero_or_the_lowest() -> None:
    assert Padding("p", 1).value == 0
    assert Padding("p", 1, lowest=True).value == np.finfo(np.float32).min


def test_sides_below_0_and_vectors_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"layer 'p': .*\(0, -1, 0, 0\), expected 0 or more"):
        Padding("p", below=-1)
    with pytest.raises(NetworkError, match="needs a feature map"):
        Padding("p", 1).output_shape(((5,),))
