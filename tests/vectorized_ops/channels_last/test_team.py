from __future__ import annotations

import subprocess
import sys

import numba
import pytest

from vectorized_ops.channels_last.team import borrow_team, threads_for
from vectorized_ops.errors import OperationError


@pytest.mark.parametrize("layer", ["numba.np.ufunc.nopool", "json", "math"])
def test_numba_without_openmp_is_refused(layer: str) -> None:
    with pytest.raises(OperationError, match=r"no OpenMP threads .* 'numba'"):
        borrow_team(layer)


def test_few_values_are_not_shared_among_threads() -> None:
    assert threads_for(1) == threads_for(65535) == 1
    assert threads_for(10**9) == numba.get_num_threads()


@pytest.mark.parametrize("first", ["vectorized_ops.channels_last.pooling", "vectorized_ops.torch"])
def test_kernels_of_pytorch_models_and_of_arrays_run_in_one_process(first: str) -> None:
    second = {"vectorized_ops.torch", "vectorized_ops.channels_last.pooling"} - {first}
    program = f"""
import importlib
import numpy as np
for name in ({first!r}, *{second!r}):
    importlib.import_module(name)
import torch
from vectorized_ops.torch import max_pool2d
from vectorized_ops.channels_last.pooling import MaxPooling
from vectorized_ops.shapes import PoolingShape
images = np.random.default_rng(0).standard_normal((4, 16, 16, 64)).astype(np.float32)
out, which = np.empty((4, 8, 8, 64), np.float32), np.empty((4, 8, 8, 64), np.uint8)
MaxPooling(PoolingShape(16, 16, (2, 2), (2, 2))).forward(images, out, which)
theirs = max_pool2d(torch.from_numpy(images.transpose(0, 3, 1, 2)), 2).numpy()
expected = images.reshape(4, 8, 2, 8, 2, 64).max((2, 4))
assert (out == expected).all() and (theirs.transpose(0, 2, 3, 1) == expected).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_no_part_imports_torch() -> None:
    program = """
import sys
from vectorized_ops.implementations import Operations, operations
found = operations("channels_last")
for name in vars(Operations):
    getattr(found, name)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
