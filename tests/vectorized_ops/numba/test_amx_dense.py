"""Dense layers by AMX's tiles, emulated, against the definition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from contracts.memory import ROUNDED
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import STORED, aligned_zeros, zeros_images_last
from vectorized_ops.numba import amx_dense, tuned_convolution
from vectorized_ops.numba.amx_dense import AmxDense, rounded_dense
from vectorized_ops.numba.compiling import autotuning, compiler
from vectorized_ops.numba.compiling.autotuning import Choice
from vectorized_ops.numba.dense import Dense


@pytest.fixture(scope="module", autouse=True)
def processor_that_has_tiles() -> object:
    """One that the implementation takes to have AMX, whose tiles are emulated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "target_has_amx", lambda: True)
        patch.setattr(amx_dense, "amx_refusal", lambda: None)
        patch.setattr(amx_dense, "AmxDense", partial(AmxDense, native=False))
        patch.setattr(amx_dense, "chosen", lambda *_: Choice("amx", {}))
        yield


@settings(max_examples=20)
@given(data=st.data())
def test_results_are_rounded_once(data: st.DataObject, dense_contract: Callable[..., None]) -> None:
    assert isinstance(operations("numba", precision="bfloat16").dense(1, 1, 1), AmxDense)
    dense_contract(ROUNDED, data.draw)


@pytest.mark.parametrize(
    ("images", "faster", "names"),
    [
        (32, True, ["pairs"]),
        (256, True, ["pairs", "amx"]),
        (7, False, ["pairs"]),
        (8, False, ["pairs", "amx"]),
    ],
)
def test_the_faster_way_is_taken_where_products_outweigh_the_packing_of_weights(
    images: int, faster: bool, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuned_convolution, "target_sums_pairs_faster", lambda: faster)
    tried: list[str] = []

    def choose(
        _question: str,
        candidates: dict[str, Callable[[], object]],
        expected: dict[str, float],
        *_: str,
    ) -> Choice:
        for name, run in autotuning._worth_trying(candidates, expected).items():
            run()
            tried.append(name)
        return Choice(tried[-1], {})

    monkeypatch.setattr(amx_dense, "chosen", choose)
    assert isinstance(rounded_dense(images, 33, 17), AmxDense) is ("amx" in names)
    assert tried == names


def test_inputs_that_leave_the_cache_are_left_to_pairs() -> None:
    assert type(rounded_dense(128, 4096, 10)) is AmxDense
    assert type(rounded_dense(128, 4128, 10)) is Dense


def test_without_permission_pairs_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx_dense, "amx_refusal", lambda: "no")
    assert type(rounded_dense(32, 8, 4)) is Dense


def test_logits_and_their_gradient_are_float32_and_scratch_memory_may_hold_anything() -> None:
    rng = np.random.default_rng(0)
    values, gradient, weights = (
        rng.integers(-4, 5, size).astype(np.float32) for size in ((48, 70), (48, 33), (33, 70))
    )
    operation = AmxDense(48, 70, 33, native=False)
    memory = aligned_zeros((operation.scratch_size + 5,))
    memory[...] = np.nan
    operation.use_scratch(memory[:-5])
    inputs, back = (zeros_images_last((48, 70), STORED) for _ in range(2))
    out, arriving = (zeros_images_last((48, 33)) for _ in range(2))
    inputs[...], arriving[...] = rounded(values), gradient
    operation.forward(inputs, weights, None, out)
    assert_array_equal(out, values @ weights.T)
    operation.backward_data(arriving, weights, back)
    assert_array_equal(widened(back), widened(rounded(gradient @ weights)))
    weights_out = aligned_zeros(weights.shape)
    operation.backward_weights(inputs, arriving, weights_out, None)
    assert_array_equal(weights_out, gradient.T @ values)
    assert np.isnan(memory[-5:]).all()


def test_vectors_of_other_shapes_are_refused() -> None:
    operation = AmxDense(16, 4, 3, native=False)
    wrong, weights = zeros_images_last((16, 5), STORED), np.zeros((3, 4), np.float32)
    with pytest.raises(OperationError, match=r"shape \(16, 5\) .* expected shape \(16, 4\)"):
        operation.forward(wrong, weights, None, zeros_images_last((16, 3), STORED))
