from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value
from vectorized_ops.numba.kernels.arithmetic import lrn

from .lanewise import lanewise

WITHOUT_AVX512 = """
from tests.vectorized_ops.numba.kernels.arithmetic import test_lrn
from vectorized_ops.numba.emit.lanes import AVX512
assert not AVX512
quarters = [1, 2, 3, 4]
for number in quarters:
    test_lrn.test_powers_are_those_of_the_definition(number)
print(quarters)
"""
SCALES = np.geomspace(1e-6, 1e6, LANES).astype(np.float32)


@pytest.mark.parametrize("quarters", [1, 2, 3, 4])
def test_powers_are_those_of_the_definition(quarters: int) -> None:
    def powers(lanes: Lanes, read: list[Value], _none: Value) -> tuple[Value, ...]:
        return lrn.powers(lanes, read[0], quarters)

    power, inverse = lanewise(powers)(SCALES, results=2)
    assert_allclose(power, SCALES.astype(np.float64) ** (-quarters / 4), rtol=1e-6)
    assert_allclose(inverse, 1 / SCALES.astype(np.float64), rtol=1e-6)
    assert_array_equal(lanewise(powers)([np.inf], results=2), 0)
    assert np.isnan(lanewise(powers)([np.nan], results=2)).all()


def test_gradient_is_its_direct_part_and_a_share_of_what_is_spread() -> None:
    def gradient(lanes: Lanes, read: list[Value], slope: Value) -> tuple[Value, ...]:
        value, arriving, power = read
        direct, spread = lrn.gradient_parts(lanes, value, arriving, power, power)
        whole = lrn.values_gradient(lanes, value, direct, spread, lanes.copies(slope))
        return direct, spread, whole

    found = lanewise(gradient)([3], [5], [2], results=3, scalar=-0.5)
    assert found[:, 0].tolist() == [10, 60, 10 - 0.5 * 3 * 60]


@pytest.mark.slow
def test_powers_are_the_same_without_avx512(tmp_path: Path) -> None:
    settings = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_AVX512],
        env={**os.environ, **settings, "NUMBA_CACHE_DIR": str(tmp_path)},
        cwd=Path(__file__).parents[5],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "[1, 2, 3, 4]\n"), done.stderr
