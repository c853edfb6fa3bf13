from __future__ import annotations

import numpy as np
import pytest
import torch

from vectorized_ops.reference import reduction
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, PRODUCT, SUM, XOR


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(SUM, [10, 4]), (PRODUCT, [30, 0]), (MIN, [2, 0]), (MAX, [5, 3]), (AND, [0, 0]), (OR, [7, 3])],
)
def test_operations_on_three_vectors(operation: int, expected: list[int]) -> None:
    rows = [np.array(row, np.int32) for row in ([2, 1], [3, 3], [5, 0])]
    out = np.zeros(2, np.int32)
    reduction.combine(out, rows, "int32", operation)
    assert out.tolist() == expected


def test_exclusive_or_and_mean() -> None:
    out = np.zeros(1, np.uint8)
    reduction.combine(out, [np.array([6], np.uint8), np.array([3], np.uint8)], "uint8", XOR)
    assert out.tolist() == [5]
    mean = np.zeros(1, np.float32)
    reduction.combine(mean, [np.array([x], np.float32) for x in (1, 2, 6)], "float32", MEAN)
    assert mean.tolist() == [3]


def test_values_are_added_in_rank_order() -> None:
    rows = [np.array([x], np.float32) for x in (1e8, 1, -1e8)]
    out = np.zeros(1, np.float32)
    reduction.combine(out, rows, "float32", SUM)
    assert out.tolist() == [0]


def test_half_precision_is_added_in_float32_and_rounded_once() -> None:
    rows = [np.array([x], np.float16) for x in (2048, 1, 1)]
    out = np.zeros(1, np.float16)
    reduction.combine(out, rows, "float16", SUM)
    assert out.tolist() == [2050]


def test_bfloat16_is_rounded_as_torch_does() -> None:
    values = torch.cat([torch.randn(1000), torch.tensor([np.nan, np.inf, -np.inf, 3e38, 1e-40])])
    halves = values.bfloat16()
    bits = halves.view(torch.int16).numpy().view(np.uint16)
    other = torch.linspace(-2, 2, halves.numel()).bfloat16()
    out = np.zeros_like(bits)
    reduction.combine(out, [bits, other.view(torch.int16).numpy().view(np.uint16)], "bfloat16", SUM)
    expected = (halves.float() + other.float()).bfloat16()
    found = torch.from_numpy(out.view(np.int16)).view(torch.bfloat16)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
