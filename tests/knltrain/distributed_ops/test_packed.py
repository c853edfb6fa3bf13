from __future__ import annotations

import numpy as np

from knltrain.distributed_ops.packed import PackedLayout


def test_parameters_lie_one_after_the_other_each_at_a_cache_line() -> None:
    packed = PackedLayout({"weights": (3, 2, 3), "bias": (3,), "more": (16,)})
    assert packed.begins == {"weights": 0, "bias": 32, "more": 48}
    assert packed.size == 64
    vector = packed.vector()
    assert vector.ctypes.data % 64 == 0
    views = packed.views(vector)
    views["bias"][...] = 1
    assert {name: view.shape for name, view in views.items()} == {
        "weights": (3, 2, 3),
        "bias": (3,),
        "more": (16,),
    }
    assert np.flatnonzero(vector).tolist() == [32, 33, 34]


def test_each_parameter_moves_in_its_own_way() -> None:
    packed = PackedLayout({"weights": (20,), "bias": (3,), "running": (3,)})
    segments = packed.segments({"weights": 0.5}, {"running": 0.25}, {"bias": 2.0})
    assert segments.bounds.tolist() == [0, 32, 48, 64]
    assert segments.decays.tolist() == [0.5, 0.0, 0.0]
    assert segments.ordinary.tolist() == [True, True, False]
    assert segments.statistics[2] == 0.25
    assert segments.rates.tolist() == [1.0, 2.0, 1.0]
