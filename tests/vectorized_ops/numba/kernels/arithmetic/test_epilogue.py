"""The contract of batch normalisation tests what each of them does; here is their order."""

from __future__ import annotations

from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.numba.kernels.arithmetic.activation import ACTIVATIONS
from vectorized_ops.numba.kernels.arithmetic.epilogue import BENT, FLOOR, SMOOTH, number_of
from vectorized_ops.shapes import ACTIVATION_FUNCTIONS


def test_smooth_functions_follow_the_rectifiers_in_the_order_of_their_names() -> None:
    assert (FLOOR, BENT, SMOOTH) == (0, 1, 2)
    assert tuple(ACTIVATIONS) == ACTIVATION_FUNCTIONS
    numbers = [number_of(Epilogue(name)) for name in ACTIVATION_FUNCTIONS]
    assert numbers == list(range(SMOOTH, SMOOTH + len(ACTIVATIONS)))
    assert [number_of(each) for each in (IDENTITY, RELU, Epilogue(slope=0.5))] == [0, 0, 1]
