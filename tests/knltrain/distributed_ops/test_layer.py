from __future__ import annotations

import numpy as np
import pytest

from knltrain.distributed_ops import Options, ReLU
from knltrain.errors import NetworkError


def test_error_says_what_was_given_and_where_to_begin() -> None:
    layer = ReLU("relu7", (2, 3), Options("reference"))
    with pytest.raises(NetworkError) as caught:
        layer.forward(np.zeros((2, 4), np.float32))
    text = str(caught.value)
    assert "layer 'relu7' was given values of shape (2, 4) and type float32" in text
    assert "expected (2, 3), float32" in text
    assert "Images.load" in text


def test_times_of_all_directions_are_there_and_can_be_forgotten() -> None:
    layer = ReLU("relu", (2, 3), Options("reference"))
    assert list(layer.times) == ["forward", "backward_data", "backward_weights", "update"]
    layer.forward(np.zeros((2, 3), np.float32))
    assert layer.times["forward"].calls == 1
    layer.clear_times()
    assert layer.times["forward"].calls == 0
    assert layer.times["forward"].compute_seconds == 0
