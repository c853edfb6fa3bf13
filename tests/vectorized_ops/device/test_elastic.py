"""Elastic averaging on a device has the bits of its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vectorized_ops.device.elastic import elastic_increment
from vectorized_ops.reference import elastic as reference


def drawn() -> list[np.ndarray]:
    draws = np.random.default_rng(3)
    return [draws.standard_normal(1001, dtype=np.float32) for _ in range(3)]


@pytest.mark.parametrize("moving_rate", [0.1, 0.45, 0.9])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_pull_and_its_increment_are_those_of_the_definition(
    device: str, moving_rate: float
) -> None:
    here = drawn()
    there = [torch.from_numpy(each.copy()).to(device) for each in here]
    reference.elastic_increment(*here, moving_rate)
    elastic_increment(*there, moving_rate)
    for expected, found in zip(here, there, strict=True):
        np.testing.assert_array_equal(found.cpu().numpy(), expected)
