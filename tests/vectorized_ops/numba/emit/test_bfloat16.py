"""bfloat16 in registers: the rule of the instructions, and code in float32 that keeps to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

import vectorized_ops
from vectorized_ops.bfloat16 import rounded
from vectorized_ops.numba.emit import bfloat16
from vectorized_ops.numba.emit.lanes import LANES

from . import bfloat16_arithmetic as arithmetic


def bits(values: np.ndarray) -> np.ndarray:
    """Of float32, all NaN being the same one."""
    return np.where(np.isnan(values), 0x7FC00000, values.view(np.uint32))


@pytest.fixture(scope="module")
def found() -> dict[str, np.ndarray]:
    return arithmetic.found()


def test_arrays_of_bfloat16_are_told_by_their_names() -> None:
    single, half = np.zeros(1, np.float32), np.zeros(1, np.uint16)
    assert bfloat16.bfloat16_among(out=half, inputs=single, mask=half) == ("out", "mask")


def test_kernels_round_to_nearest_even_and_take_denormal_numbers_for_zeros(
    found: dict[str, np.ndarray],
) -> None:
    values = arithmetic.to_round()
    expected = arithmetic.rounded_by_rule(values)
    assert_array_equal(found["rounded"], expected)
    assert_array_equal(found["single"], expected)
    both = expected.astype(np.uint32) | np.roll(expected, -1).astype(np.uint32) << 16
    assert_array_equal(found["pairs"].view(np.uint32), both)


def test_numpy_rounds_alike_but_for_denormal_numbers(found: dict[str, np.ndarray]) -> None:
    values = arithmetic.to_round()
    denormal = (values != 0) & (np.abs(values) < np.finfo(np.float32).tiny)
    assert denormal.any()
    assert_array_equal(rounded(values)[~denormal], found["rounded"][~denormal])
    assert_array_equal(found["rounded"][denormal] & 0x7FFF, np.zeros(denormal.sum()))


def test_products_of_pairs_are_two_fused_steps_the_second_elements_first(
    found: dict[str, np.ndarray],
) -> None:
    expected = arithmetic.added_by_rule(*arithmetic.to_multiply())
    assert_array_equal(bits(found["sums"]), bits(expected))


@pytest.mark.parametrize(("part", "lost"), [(1.0, False), (1.5, True), (2.0, True)])
def test_what_is_rounded_up_to_a_denormal_step_is_zero_to_the_instruction_alone(
    part: float, lost: bool
) -> None:
    # 2^-126 - part * 2^-151: the steps below are 2^-149, without denormal numbers 2^-150.
    ones, smallest = np.ones(LANES, np.float32), np.float32(2.0**-126)
    left, right = (paired(each * ones, 0 * ones) for each in (-(2.0**-75), part * 2.0**-76))
    out = np.empty_like(ones)
    arithmetic.add_all(out, left, right, ones * smallest)
    instruction = bfloat16.IS_NATIVE and LANES == 16
    assert_array_equal(out, 0 * ones if lost and instruction else ones * smallest)


@pytest.mark.skipif(not bfloat16.IS_NATIVE, reason="compiled for no processor with AVX512_BF16")
@pytest.mark.parametrize("processor", ["skylake-avx512", "haswell"])
def test_processors_without_the_instructions_give_their_bits(
    processor: str, found: dict[str, np.ndarray], tmp_path: Path
) -> None:
    settings = {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(vectorized_ops.__file__).parents[1]),
    }
    written = tmp_path / "found.npz"
    command = [sys.executable, "-W", "error", arithmetic.__file__, written]
    subprocess.run(command, env={**os.environ, **settings}, check=True)
    with np.load(written) as elsewhere:
        assert not elsewhere["native"]
        for name in ("rounded", "single", "pairs"):
            assert elsewhere[name].tobytes() == found[name].tobytes(), name
        assert_array_equal(bits(elsewhere["sums"]), bits(found["sums"]))
