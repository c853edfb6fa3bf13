from __future__ import annotations

import pytest

from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue


@pytest.mark.parametrize(
    ("epilogue", "expected"),
    [
        (IDENTITY, ("rectifier", 1.0, float("inf"))),
        (RELU, ("rectifier", 0.0, float("inf"))),
        (Epilogue(slope=0.0, ceiling=6.0), ("rectifier", 0.0, 6.0)),
        (Epilogue("silu"), ("activation", "silu")),
    ],
)
def test_epilogue_is_an_operation_of_its_kind(epilogue: Epilogue, expected: tuple) -> None:
    made = epilogue.operation(
        lambda slope, ceiling: ("rectifier", slope, ceiling), lambda name: ("activation", name)
    )
    assert made == expected
