from __future__ import annotations

import torch

from vectorized_ops.machine_bounds import MachineBounds


def test_rates_are_measured_by_so_many_threads_and_the_number_is_put_back() -> None:
    before, used = torch.get_num_threads(), []
    bounds = MachineBounds(1, processes=64)
    multiply = bounds._product
    bounds._product = lambda: (used.append(torch.get_num_threads()), multiply())  # type: ignore[method-assign]
    found = bounds.measure()
    assert set(used) == {1}
    assert torch.get_num_threads() == before
    assert 1e8 < found.flops_per_second < 1e15
    assert 1e7 < found.bytes_per_second < 1e14


def test_processes_that_measure_at_once_take_less_memory_each() -> None:
    several = MachineBounds(1, processes=8)
    assert several._source.numel() == 1 << 22
    assert several._left.shape == (1024, 1024)


def test_matrices_are_of_the_precision() -> None:
    rounded = MachineBounds(1, processes=8, precision="bfloat16")
    assert rounded._left.dtype == rounded._out.dtype == torch.bfloat16
    assert rounded._source.dtype == torch.float32
    assert 1e8 < rounded.flops_per_second(0.001) < 1e15
