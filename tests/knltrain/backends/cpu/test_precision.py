"""Activations in bfloat16: steps are near those in float32; what a processor lacks is told."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from seam.graphs import ALEXNET, GRAPHS, LENET, RESIDUAL
from seam.material import batch_of, parameters_of

from knltrain.assembly import build_backend
from knltrain.backends.backend import Backend
from knltrain.backends.cpu import CpuBackend
from knltrain.backends.cpu.precision import check_here, computable_here, precision_here
from knltrain.backends.torch.backend import TorchBackend
from knltrain.config import load_config
from knltrain.config.backend_tables import BackendConfig
from knltrain.errors import ConfigError, NetworkError
from knltrain.network.layers import Dropout
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from vectorized_ops.numba import amx_dense, amx_permission, tuned_convolution
from vectorized_ops.numba.compiling import compiler
from vectorized_ops.numba.emit import bfloat16

ROOT = Path(__file__).parents[4]

ROUNDED = "bfloat16"

SKYLAKE = "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd,+avx2,+fma,+f16c,+bmi2"
"""What of the host a Skylake has: no instructions for bfloat16."""


def in_precision(network: Network, images: int, precision: str) -> CpuBackend:
    """One that sums directly, and whose memory holds NaN."""
    backend = CpuBackend(network, images, 1, "numba", False, precision=precision)
    np.frombuffer(backend._passes.plan._arena, np.uint8)[:] = 255
    return backend


def step_of(backend: Backend, network: Network, images: int) -> tuple[float, np.ndarray]:
    packed = parameters_of(network).packed
    gradient = np.full_like(packed, np.nan)
    return backend.loss_and_gradient(batch_of(network, images), packed, gradient), gradient


def distance(gradient: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(gradient - expected) / np.linalg.norm(expected))


def of_each(network: Network, values: np.ndarray) -> dict[str, float]:
    """The length of each parameter's values."""
    views = ParameterVector(network, values).views
    return {name: float(np.linalg.norm(view)) for name, view in views.items()}


@pytest.mark.parametrize("images", [20, 32], ids=["20 images", "pairs of images"])
@pytest.mark.parametrize("network", GRAPHS, ids=lambda network: network.name)
def test_a_step_is_near_that_in_float32(network: Network, images: int) -> None:
    plain, rounded = (in_precision(network, images, each) for each in ("float32", ROUNDED))
    (loss, gradient), (near, nearly) = (step_of(it, network, images) for it in (plain, rounded))
    assert_allclose(near, loss, rtol=5e-3)
    assert distance(nearly, gradient) < 0.2  # an argmax among equals counts most
    floor = 1e-4 * np.linalg.norm(gradient)  # some are zero but for rounding
    far = of_each(network, nearly - gradient)
    for name, size in of_each(network, gradient).items():
        assert far[name] < 0.25 * size + floor, name
    assert not np.array_equal(nearly, gradient)
    batch, packed = batch_of(network, images), parameters_of(network).packed
    (loss, right), (near, nearly_right) = (it.evaluate(batch, packed) for it in (plain, rounded))
    assert_allclose(near, loss, rtol=5e-3)
    assert abs(right - nearly_right) <= 1


REPEATABLE = [each for each in GRAPHS if not any(isinstance(it, Dropout) for it in each.layers)]
"""Networks whose steps draw no numbers."""


@pytest.mark.slow
@pytest.mark.parametrize("network", REPEATABLE, ids=lambda network: network.name)
def test_gradients_are_as_near_to_float32_as_by_pytorchs_autocast(network: Network) -> None:
    """In all, and by layer but for a rounding."""
    _, expected = step_of(in_precision(network, 32, "float32"), network, 32)
    _, found = step_of(CpuBackend(network, 32, 1, "numba", precision=ROUNDED), network, 32)
    _, theirs = step_of(TorchBackend(network, 32, 1, precision=ROUNDED), network, 32)
    assert distance(found, expected) < 1.5 * distance(theirs, expected) + 1e-3
    floor = 1e-4 * np.linalg.norm(expected)
    ours, allowed = (of_each(network, each - expected) for each in (found, theirs))
    for name, size in of_each(network, expected).items():
        assert ours[name] < 2 * allowed[name] + size * 2**-8 + floor, name


@pytest.mark.parametrize("images_at_a_time", [16, 20])
@pytest.mark.parametrize("network", [ALEXNET, LENET], ids=lambda network: network.name)
def test_slices_of_a_batch_have_the_gradient_of_the_whole(
    network: Network, images_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept between them is float32: they differ by the order of its sums alone.

    AMX, which a dense layer is measured with, would round the gradient of logits.
    """
    monkeypatch.setattr(amx_dense, "amx_refusal", lambda: "left out")
    whole = in_precision(network, 50, ROUNDED)
    slices = CpuBackend(network, 50, 1, "numba", False, images_at_a_time, precision=ROUNDED)
    (loss, gradient), (near, nearly) = (step_of(it, network, 50) for it in (whole, slices))
    assert_allclose(near, loss, rtol=1e-6)
    assert distance(nearly, gradient) < 1e-5


EMULATED = """
import sys
sys.path.append(sys.argv[1])
import numpy as np
from seam.graphs import ALEXNET, RESIDUAL
from seam.material import batch_of, parameters_of
from knltrain.backends.cpu import CpuBackend
from vectorized_ops.numba.emit.bfloat16 import IS_NATIVE
assert not IS_NATIVE
for network in (ALEXNET, RESIDUAL):
    packed = parameters_of(network).packed
    gradient = np.zeros_like(packed)
    backend = CpuBackend(network, 32, 1, "numba", False, precision="bfloat16")
    loss = backend.loss_and_gradient(batch_of(network, 32), packed, gradient)
    print(loss.hex(), gradient.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.skipif(not bfloat16.IS_NATIVE, reason="the processor has no AVX512_BF16")
def test_emulated_steps_have_the_same_bits() -> None:
    seams = str(Path(__file__).parents[1])
    settings = {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": SKYLAKE}
    done = subprocess.run(
        [sys.executable, "-c", EMULATED, seams],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for network, line in zip((ALEXNET, RESIDUAL), done.stdout.splitlines(), strict=True):
        loss, gradient = step_of(in_precision(network, 32, ROUNDED), network, 32)
        assert line == f"{loss.hex()} {gradient.tobytes().hex()}"


def test_activations_take_half_the_memory() -> None:
    plain, rounded = (in_precision(RESIDUAL, 32, each) for each in ("float32", ROUNDED))
    assert rounded.description["precision"] == ROUNDED
    sizes = [
        sum(place.array.nbytes for place in it._passes.plan._places) for it in (plain, rounded)
    ]
    assert sizes[1] < 0.55 * sizes[0]


@pytest.mark.parametrize("precision", ["float32", ROUNDED])
def test_a_layer_that_overflows_is_named(precision: str) -> None:
    backend, parameters = in_precision(RESIDUAL, 32, precision), parameters_of(RESIDUAL)
    first, second, *_ = [name for name in parameters.views if name.endswith(".weights")]
    batch = batch_of(RESIDUAL, 32)
    assert backend.first_non_finite(batch, parameters.packed) is None
    parameters.views[second][...] = 3e38
    assert backend.first_non_finite(batch, parameters.packed) == second.removesuffix(".weights")
    parameters.views[first][0] = np.nan
    assert backend.first_non_finite(batch, parameters.packed) == first.removesuffix(".weights")


EMULATED_TILES = ("backend.precision=bfloat16", "backend.emulate_bfloat16=true")
TILES_FOR_ALL = 'backend.algorithms={"*"="amx"}'


def configured(*overrides: str) -> Backend:
    """The backend of a configuration, for LENET and 32 images by one thread."""
    config = load_config(ROOT / "configs" / "lenet_digits.toml", list(overrides))
    return build_backend(config, LENET, 32, 1)


def test_channels_in_the_lanes_stay_float32_where_precision_is_left_to_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bfloat16, "IS_NATIVE", True)
    chosen = ("backend.precision=auto", "backend.layout=channels_last", "backend.tuning=off")
    backend = configured(*chosen)
    assert backend.description["precision"] == "float32"
    backend.close()


def test_a_training_by_emulated_tiles_learns_as_one_in_float32() -> None:
    losses: list[list[float]] = []
    for overrides in ((), (*EMULATED_TILES, TILES_FOR_ALL)):
        backend, packed = configured("backend.tuning=off", *overrides), parameters_of(LENET).packed
        losses.append([])
        for _ in range(12):
            gradient = np.full_like(packed, np.nan)
            losses[-1].append(backend.loss_and_gradient(batch_of(LENET, 32), packed, gradient))
            packed -= 0.05 * gradient
        taken = {each.algorithm for each in backend.regions if each.name.startswith("conv")}
        assert (taken == {"amx"}) is bool(overrides)
        backend.close()
    plain, tiled = losses
    assert plain[-1] < 0.8 * plain[0]
    assert_allclose(tiled, plain, rtol=0.03)
    assert tiled != plain


def test_tiles_are_refused_where_they_are_neither_there_nor_emulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuned_convolution, "target_has_amx", lambda: False)
    monkeypatch.setattr(bfloat16, "IS_NATIVE", True)
    with pytest.raises(NetworkError, match=r"'conv1'.*no AMX.*emulate_bfloat16 = true"):
        configured("backend.precision=bfloat16", TILES_FOR_ALL)


@pytest.mark.parametrize(
    ("asked", "emulate", "is_native", "expected"),
    [
        ("float32", False, True, "float32"),
        ("auto", False, True, ROUNDED),
        ("auto", True, False, "float32"),
        (ROUNDED, False, True, ROUNDED),
        (ROUNDED, True, False, ROUNDED),
    ],
)
def test_precision_follows_from_the_processor(
    monkeypatch: pytest.MonkeyPatch, asked: str, emulate: bool, is_native: bool, expected: str
) -> None:
    monkeypatch.setattr(bfloat16, "IS_NATIVE", is_native)
    monkeypatch.setattr(compiler, "target_sums_pairs_faster", lambda: True)
    assert precision_here(asked, emulate) == expected


@pytest.mark.parametrize(("missing", "expected"), [(None, ROUNDED), ("Linux says no", "float32")])
def test_automatic_precision_is_float32_where_the_tiles_that_bfloat16_is_left_to_are_refused(
    monkeypatch: pytest.MonkeyPatch, missing: str | None, expected: str
) -> None:
    monkeypatch.setattr(bfloat16, "IS_NATIVE", True)
    monkeypatch.setattr(compiler, "target_sums_pairs_faster", lambda: False)
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: missing)
    assert precision_here("auto", emulate=False) == expected
    assert precision_here(ROUNDED, emulate=False) == ROUNDED


def test_a_processor_without_instructions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "IS_NATIVE", False)
    with pytest.raises(ConfigError, match=r"no AVX512_BF16.*choose 'auto' or 'float32'.*emulate_"):
        precision_here(ROUNDED, emulate=False)


@pytest.mark.parametrize("isa", [(), ("avx512_bf16", "amx_bf16")], ids=["none", "all"])
@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"precision": ROUNDED}, r"somewhere\.precision = 'bfloat16'.*no AVX512_BF16.*somewhere\."),
        (
            {"precision": "auto", "algorithms": {"*": {"forward": "amx"}}},
            r"backend\.algorithms with 'amx'.*no AMX.*somewhere\.emulate_bfloat16 = true",
        ),
        ({"precision": "auto"}, None),
        ({"precision": ROUNDED, "algorithms": {"*": "amx"}, "emulate_bfloat16": True}, None),
        ({"name": "torch", "implementation": "reference", "precision": ROUNDED}, None),
    ],
)
def test_what_a_processor_lacks_is_refused_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, chosen: dict, said: str | None, isa: tuple[str, ...]
) -> None:
    monkeypatch.setattr(bfloat16, "IS_NATIVE", False)
    monkeypatch.setattr(tuned_convolution, "target_has_amx", lambda: False)
    monkeypatch.setattr(amx_permission, "amx_refusal", lambda: None)
    monkeypatch.setattr("affinity.read_topology", lambda: SimpleNamespace(isa=isa))
    backend = BackendConfig.model_validate(chosen)
    refused = nullcontext() if said is None or isa else pytest.raises(ConfigError, match=said)
    with refused:
        check_here(backend, "somewhere")


def test_tiles_that_linux_refuses_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "IS_NATIVE", True)
    monkeypatch.setattr(tuned_convolution, "target_has_amx", lambda: True)
    monkeypatch.setattr(amx_permission, "amx_refusal", lambda: "no tiles today")
    has = SimpleNamespace(isa=("avx512_bf16", "amx_bf16"))
    monkeypatch.setattr("affinity.read_topology", lambda: has)
    backend = BackendConfig.model_validate({"precision": ROUNDED, "algorithms": {"*": "amx"}})
    with pytest.raises(ConfigError, match="AMX is refused: no tiles today"):
        check_here(backend, "backend")


TILES = {"*": "direct", "conv1": "amx", "conv2": {"forward": "amx", "backward_data": "direct"}}
WITHOUT = {"*": "direct", "conv1": "auto", "conv2": {"forward": "auto", "backward_data": "direct"}}


@pytest.mark.parametrize(
    ("chosen", "changes", "told"),
    [
        ({"precision": ROUNDED}, {"precision": "float32"}, ["no AVX512_BF16"]),
        ({"precision": "auto"}, {}, []),
        (
            {"precision": ROUNDED, "algorithms": TILES},
            {"precision": "float32", "algorithms": WITHOUT},
            ["no AVX512_BF16", "no AMX"],
        ),
        ({"precision": "auto", "algorithms": TILES}, {"algorithms": WITHOUT}, ["no AMX"]),
        ({"precision": ROUNDED, "algorithms": TILES, "emulate_bfloat16": True}, {}, []),
        ({"name": "torch", "implementation": "reference", "precision": ROUNDED}, {}, []),
    ],
)
def test_a_model_is_evaluated_by_what_the_processor_has(
    monkeypatch: pytest.MonkeyPatch, chosen: dict, changes: dict, told: list[str]
) -> None:
    backend = BackendConfig.model_validate(chosen)
    monkeypatch.setattr(bfloat16, "IS_NATIVE", False)
    monkeypatch.setattr(tuned_convolution, "target_has_amx", lambda: False)
    found, notes = computable_here(backend)
    assert found == BackendConfig.model_validate(chosen | changes)
    for note, words in zip(notes, told, strict=True):
        assert words in note


def test_where_only_tiles_are_missing_the_model_stays_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = BackendConfig.model_validate({"precision": ROUNDED, "algorithms": TILES})
    monkeypatch.setattr(bfloat16, "IS_NATIVE", True)
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: None)
    assert computable_here(chosen) == (chosen, ())
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: "AMX is refused")
    found, (note,) = computable_here(chosen)
    assert (found.precision, found.algorithms) == (ROUNDED, WITHOUT)
    assert "AMX is refused" in note
