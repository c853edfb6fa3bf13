"""Convolution by AMX's tiles, emulated, against the definition."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
from contracts.convolution import check_in_bfloat16, normal_operands, whole_operands
from contracts.memory import ROUNDED, Memory, implementation
from numpy.testing import assert_allclose, assert_array_equal

import vectorized_ops
from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import aligned_zeros, zeros_images_last
from vectorized_ops.numba.amx_convolution import AmxConvolution, amx_takes
from vectorized_ops.numba.amx_permission import amx_refusal
from vectorized_ops.numba.compiling.compiler import target_has_amx
from vectorized_ops.shapes import ConvolutionShape

from . import executed_tiles

emulated = partial(AmxConvolution, native=False)

SHAPES = {
    "plain": ConvolutionShape(32, 5, 6, 8, 20, (3, 3), padding=(1, 1)),
    "one vector of images": ConvolutionShape(16, 4, 5, 3, 5, (3, 3), (2, 2), (1, 1)),
    "three vectors": ConvolutionShape(48, 3, 5, 33, 40, (1, 1)),
    "half pairs of vectors": ConvolutionShape(10, 7, 5, 18, 35, (2, 2)),
    "odd channels": ConvolutionShape(20, 7, 6, 5, 17, (3, 2), (2, 1), (1, 2), (2, 1)),
    "one pixel": ConvolutionShape(32, 1, 1, 70, 100, (1, 1)),
    "one output": ConvolutionShape(16, 3, 3, 21, 33, (3, 3)),
    "groups": ConvolutionShape(33, 4, 4, 34, 66, (3, 3), padding=(1, 1), groups=2),
    "one channel": ConvolutionShape(7, 6, 6, 1, 1, (5, 5), padding=(2, 2)),
    "stride beyond the kernel": ConvolutionShape(32, 5, 5, 15, 3, (1, 1), (2, 2)),
    "more blocks of channels": ConvolutionShape(32, 3, 3, 70, 16, (1, 2)),
    "whole tiles": ConvolutionShape(32, 5, 6, 64, 32, (3, 3), padding=(1, 1)),
    "phases of whole tiles": ConvolutionShape(48, 6, 6, 32, 64, (3, 3), (2, 2), (1, 1)),
    "groups of whole tiles": ConvolutionShape(16, 4, 3, 62, 64, (3, 3), padding=(1, 1), groups=2),
}


def place() -> Memory:
    return Memory(implementation(ROUNDED))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_results_are_rounded_once(shape: ConvolutionShape) -> None:
    check_in_bfloat16(shape, emulated)


@pytest.mark.parametrize("threads", [1, 6, 64])
@pytest.mark.parametrize("name", ["plain", "groups", "one pixel", "whole tiles"])
def test_work_is_divided_among_any_number_of_threads_and_nothing_is_done_twice(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    check_in_bfloat16(SHAPES[name], emulated)


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(32, 7, 7, 33, 40, (3, 3), padding=(1, 1)),
        ConvolutionShape(16, 6, 6, 16, 64, (5, 5), (2, 2), (2, 2)),
    ],
    ids=["odd channels", "stride"],
)
def test_rounding_errors_are_those_of_the_operands(shape: ConvolutionShape) -> None:
    operands = normal_operands(shape)
    kept = {
        name: widened(rounded(getattr(operands, name)))
        for name in ("images", "weights", "gradient", "summed")
    }
    operands = replace(operands, **kept)
    found = operands.results(emulated(shape), place())
    for number, (got, exact) in enumerate(zip(found, operands.exact(shape), strict=True)):
        is_stored = number < 2
        error = np.abs((widened(got) if is_stored else got) - exact)
        # A stored value is off by half of its last place, a sum of float32 by far less.
        assert (error <= is_stored * 2**-8 * np.abs(exact) + 2e-6 * np.abs(exact).max()).all()


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("name", ["plain", "groups", "three vectors"])
def test_moments_are_those_of_the_real_images_for_any_number_of_threads(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    shape = SHAPES[name]
    images = shape.images - 3
    operands, operation = whole_operands(shape), emulated(shape)
    values = place().holding(operands.images)
    out = zeros_images_last((len(values), *shape.outputs[1:]))
    moments = operation.moments(images)
    far = np.full(shape.filters, 4096, np.float32)  # squares of sums would lose the variance
    for scale, bias in ((3, None), (1, far)):  # what they held before does not count
        operation.forward(values, scale * operands.weights, bias, out, moments=moments)
    mean, variance = np.full((2, shape.filters), np.nan, np.float32)
    moments.write(mean, variance)
    exact = out[:images].astype(np.float64)
    assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=1e-6, atol=1e-5)
    assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=1e-5)


def test_gradients_in_float32_are_rounded_as_operands_but_not_for_weights() -> None:
    shape = ConvolutionShape(32, 2, 3, 18, 10, (1, 1))
    operands = whole_operands(shape)
    gradient = zeros_images_last(shape.outputs)
    gradient[...] = operands.gradient + np.float32(2**-12)  # lost in bfloat16
    operation, stored = emulated(shape), place()
    back, weights_out = stored.garbage(*shape.inputs), np.empty(shape.weights, np.float32)
    operation.backward_data(gradient, operands.weights, back)
    kept = operands.gradient + np.float32(2**-12) * (operands.gradient == 0)
    assert_allclose(
        widened(back), np.einsum("nyxk,kc->nyxc", kept, operands.weights[..., 0, 0]), 4e-3
    )
    operation.backward_weights(stored.holding(operands.images), gradient, weights_out, None)
    whole = np.einsum("nyxk,nyxc->kc", gradient, operands.images, dtype=np.float64)
    assert_array_equal(weights_out[..., 0, 0], whole)


def test_stores_past_the_caches_write_the_same(
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    shape = SHAPES["plain"]
    written = []
    for past in (False, True):
        with storing(past):
            written.append(whole_operands(shape).results(emulated(shape), place()))
    for through, past_caches in zip(*written, strict=True):
        assert_array_equal(through, past_caches)


def test_neither_another_run_nor_threads_change_a_bit(same_bits: Callable[..., None]) -> None:
    shape = SHAPES["odd channels"]

    def compute() -> list[np.ndarray]:
        found = normal_operands(shape).results(emulated(shape), place())
        return [widened(each) if each.dtype == np.uint16 else each for each in found]

    same_bits(compute, summed_by_thread=[2, 3])


def test_operations_share_scratch_memory_that_holds_anything() -> None:
    shapes = [SHAPES[name] for name in ("plain", "groups", "one pixel", "half pairs of vectors")]
    made = [emulated(shape) for shape in shapes]
    size = max(operation.scratch_size for operation in made)
    memory = aligned_zeros((size + 16,))
    for shape, operation in zip(shapes, made, strict=True):
        operation.use_scratch(memory[:size])
        operands = whole_operands(shape)
        own = operands.results(emulated(shape), place())
        memory[...] = np.nan
        for found, expected in zip(operands.results(operation, place()), own, strict=True):
            assert_array_equal(found, expected)
        assert np.isfinite(memory).any()
        assert np.isnan(memory[size:]).all()


def test_what_is_not_a_number_is_seen_where_its_window_is_and_nowhere_else() -> None:
    shape = ConvolutionShape(16, 7, 7, 15, 3, (3, 3), padding=(1, 1))
    operands = normal_operands(shape)
    sound = operands.results(emulated(shape), place())
    operands.images[3, 4, 5, 2] = operands.gradient[3, 4, 5, 2] = np.nan
    out, images_out, weights_out, bias_out = operands.results(emulated(shape), place())
    window = np.zeros(shape.outputs[:3], bool)
    window[3, 3:6, 4:7] = True
    for found, expected in ((out, sound[0]), (images_out, sound[1])):
        assert np.isnan(widened(found)[window]).all()
        assert_array_equal(found[~window], expected[~window])
    assert np.isnan(weights_out[2]).all()
    assert np.isnan(weights_out[:, 2]).all()
    rest = np.delete(np.delete(weights_out, 2, axis=0), 2, axis=1)
    assert_array_equal(rest, np.delete(np.delete(sound[2], 2, axis=0), 2, axis=1))
    assert np.isnan(bias_out[2])


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "takes"),
    [(1, 1, 1, True), (32, 32, 2, True), (30, 32, 2, False), (32, 30, 2, False), (8, 8, 8, False)],
)
def test_groups_of_few_channels_are_refused(
    channels: int, filters: int, groups: int, takes: bool
) -> None:
    shape = ConvolutionShape(16, 3, 3, channels, filters, (1, 1), groups=groups)
    assert amx_takes(shape) is takes
    if not takes:
        with pytest.raises(OperationError, match=r"at least 16 channels .* use Convolution"):
            emulated(shape)


def test_arrays_of_other_shapes_are_refused() -> None:
    operands = whole_operands(SHAPES["plain"])
    with pytest.raises(OperationError, match=r"images of shape .* expected shape \(16, 3, 3, 21\)"):
        operands.results(emulated(SHAPES["one output"]), place())


@pytest.mark.skipif(
    not target_has_amx() or amx_refusal() is not None, reason="no AMX in this processor"
)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_instructions_give_the_bits_of_their_emulation(shape: ConvolutionShape) -> None:
    native, same = (
        normal_operands(shape).results(AmxConvolution(shape, each), place())
        for each in (True, False)
    )
    for found, expected in zip(native, same, strict=True):
        assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("cc") is None, reason="no C compiler for x86-64"
)
def test_machine_code_for_tiles_gives_the_bits_of_their_emulation(tmp_path: Path) -> None:
    source, library = Path(__file__).with_name("tile_instructions.c"), tmp_path / "tiles.so"
    command = "cc", "-O2", "-mfma", "-fPIC", "-shared", "-o", library, source, "-lm"
    subprocess.run(command, check=True)
    host = llvmlite.binding.get_host_cpu_features()
    if not host.get("avx512f") or host.get("amx-tile"):
        pytest.skip("expected a processor with AVX-512 and without AMX")
    features = [f"+{name}" for name, has in host.items() if has]
    settings = {
        "NUMBA_CPU_NAME": llvmlite.binding.get_host_cpu_name(),
        "NUMBA_CPU_FEATURES": ",".join([*features, "+amx-tile", "+amx-bf16"]),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(vectorized_ops.__file__).parents[1]),
    }
    written = tmp_path / "found.npz"
    command = sys.executable, "-W", "error", executed_tiles.__file__, library, written
    done = subprocess.run(
        command, env={**os.environ, **settings}, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(written) as found:
        for value, expected in zip(
            found.values(), executed_tiles.results(native=False), strict=True
        ):
            assert value.tobytes() == expected.tobytes()
