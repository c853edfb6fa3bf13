from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.distributed_ops import Dropout, Options
from knltrain.errors import NetworkError

SHAPE = (3, 50)


@pytest.mark.parametrize("implementation", ["reference", "numba"])
def test_a_share_is_dropped_by_the_key_alone_forward_and_backward(
    implementation: str, laid_out: Callable[..., Any]
) -> None:
    options = Options(implementation)
    layer, ones = Dropout("drop", SHAPE, 0.4, options), np.ones(SHAPE, np.float32)
    values = laid_out(options, ones)
    found = np.array(layer.forward(values, 7)[:3])
    assert set(found.ravel().tolist()) == {0.0, np.float32(1 / 0.6)}
    assert 0.25 < (found == 0).mean() < 0.55
    np.testing.assert_array_equal(layer.backward_data(values)[:3], found)
    np.testing.assert_array_equal(
        Dropout("other", SHAPE, 0.4, options).forward(values, 7)[:3], found
    )
    assert not np.array_equal(layer.forward(values, 8)[:3], found)
    assert layer.forward(values, None) is values
    assert (layer.inputs, layer.outputs) == ((SHAPE,), SHAPE)
    assert layer.cost("forward").flops == 150


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(NetworkError, match="layer 'drop' was given the key -1: expected 0 to"):
        Dropout("drop", SHAPE, 0.5, Options("reference")).forward(np.zeros(SHAPE, np.float32), -1)
    with pytest.raises(NetworkError, match=r"layer 'drop': dropout with rate 1\.0.*expected 0 <="):
        Dropout("drop", SHAPE, 1.0, Options("reference"))
    with pytest.raises(NetworkError, match="layer 'drop': 'onednn' has no dropout"):
        Dropout("drop", SHAPE, 0.5, Options("onednn"))
