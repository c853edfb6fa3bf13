"""First values have the distribution asked for, and come from the seed alone."""

from __future__ import annotations

import hashlib
import math
from typing import Literal

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.network import parameters as vectors
from knltrain.network.layers import BatchNormalisation, Convolution, Dense, Initial
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector, draw, words_taken
from knltrain.network.zoo.lenet import lenet
from knltrain.vectors import aligned_zeros


def _drawn(initial: Initial, size: int, seed: int = 1) -> np.ndarray:
    out = np.full(size, 9, np.float32)
    draw(initial, seed, 0, out)
    return out


def test_constant_takes_nothing_from_the_stream() -> None:
    assert _drawn(Initial("constant", 0.5), 3).tolist() == [0.5, 0.5, 0.5]
    assert words_taken(Initial("constant", 0.5), 3) == 0


@pytest.mark.parametrize("begin", range(0, 12, 2))
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_values_can_be_drawn_from_anywhere_in_the_stream(
    kind: Literal["uniform", "normal"], begin: int
) -> None:
    whole, rest = _drawn(Initial(kind, 1.0), 99), np.empty(99 - begin, np.float32)
    draw(Initial(kind, 1.0), 1, begin, rest)
    np.testing.assert_array_equal(rest, whole[begin:])


def test_uniform_values_fill_their_range_evenly() -> None:
    values = _drawn(Initial("uniform", 2.0), 100_000)
    counts, _ = np.histogram(values, bins=10, range=(-2, 2))
    assert counts.sum() == values.size
    assert abs(counts - 10_000).max() < 5 * math.sqrt(10_000)


def test_normal_values_have_the_quantiles_of_the_normal_distribution() -> None:
    values = _drawn(Initial("normal", 0.01), 100_001)
    for quantile, expected in (
        (0.5, 0.0),
        (0.8413447, 0.01),
        (0.9772499, 0.02),
        (0.0013499, -0.03),
    ):
        below = np.count_nonzero(values < expected)
        spread = 5 * math.sqrt(values.size * quantile * (1 - quantile))
        assert abs(below - quantile * values.size) < spread
    assert np.isfinite(values).all()


def test_neighbouring_normal_values_are_not_related() -> None:
    values = _drawn(Initial("normal", 1.0), 100_000)
    for distance in (1, 2):
        related = np.mean(values[distance:] * values[:-distance])
        assert abs(related) < 5 / math.sqrt(values.size)


def test_normal_values_are_box_and_muller_s_of_the_seed_s_words() -> None:
    words = [int(word) >> 11 for word in np.random.Philox(1).random_raw(6)]
    expected: list[float] = []
    for first, second in ((words[i] / 2**53, words[i + 1] / 2**53) for i in (0, 2, 4)):
        radius, angle = math.sqrt(-2 * math.log(1 - first)), 2 * math.pi * second
        expected += [3 * radius * math.cos(angle), 3 * radius * math.sin(angle)]
    np.testing.assert_allclose(_drawn(Initial("normal", 3.0), 5), expected[:5], rtol=1e-6)


def test_words_of_uniform_values_follow_each_other_without_gaps() -> None:
    """TINY's second layer begins within a block of the generator."""
    vector = ParameterVector(TINY)
    vector.initialise(seed=1)
    words = (np.random.Philox(1).random_raw(27 + 24) >> np.uint64(40)).astype(np.float32)
    units = words * np.float32(2.0**-24) - np.float32(0.5)
    for name, part in (("conv.weights", units[:27]), ("dense.weights", units[27:])):
        drawn = vector.views[name].reshape(-1)
        np.testing.assert_array_equal(drawn, part * np.float32(drawn[0] / part[0]))


def test_values_do_not_depend_on_how_many_are_made_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers = (
        Convolution("conv", 3, 3, initialiser="msra"),
        Dense("dense", 50, initialiser="gaussian:0.01"),
        Dense("last", 7),
    )
    whole, parts = (ParameterVector(Network("mixed", (5, 5, 3), layers)) for _ in range(2))
    whole.initialise(seed=1)
    monkeypatch.setattr(vectors, "CHUNK", 6)
    parts.initialise(seed=1)
    np.testing.assert_allclose(parts.packed, whole.packed, rtol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_values_change_with_the_seed(kind: Literal["uniform", "normal"]) -> None:
    first, second = (_drawn(Initial(kind, 1.0), 1000, seed) for seed in (1, 2))
    assert np.count_nonzero(first == second) < 5


TINY = Network("tiny", (4, 4, 1), (Convolution("conv", 3, 3), Dense("dense", 2)))


def test_views_cover_the_packed_vector_up_to_padding() -> None:
    vector = ParameterVector(TINY)
    for number, view in enumerate(vector.views.values(), start=1):
        view.fill(number)
    assert list(vector.views) == ["conv.weights", "conv.bias", "dense.weights", "dense.bias"]
    sizes = [27, 3, 24, 2]
    assert [np.count_nonzero(vector.packed == number) for number in (1, 2, 3, 4)] == sizes
    assert np.count_nonzero(vector.packed) == TINY.parameter_count == sum(sizes)


def test_packed_vector_is_zero_and_every_view_is_aligned_to_64_bytes() -> None:
    vector = ParameterVector(lenet())
    assert not vector.packed.any()
    assert all(view.ctypes.data % 64 == 0 for view in vector.views.values())


@pytest.mark.parametrize("size", [1, 15, 16, 1000])
def test_aligned_zeros_start_on_a_cache_line(size: int) -> None:
    vector = aligned_zeros(size)
    assert (vector.shape, vector.dtype) == ((size,), np.float32)
    assert vector.ctypes.data % 64 == 0
    assert not vector.any()


def test_given_buffer_is_used_as_it_is() -> None:
    row = np.full((2, TINY.packed_size), 3, np.float32)[1]
    vector = ParameterVector(TINY, row)
    assert vector.packed is row
    vector.views["dense.bias"][1] = 8
    assert row[TINY.parameters[-1].offset + 1] == 8
    assert np.count_nonzero(row == 3) == TINY.packed_size - 1


@pytest.mark.parametrize(
    "buffer",
    [
        np.zeros(TINY.packed_size, np.float64),
        np.zeros(TINY.packed_size + 16, np.float32),
        np.zeros((1, TINY.packed_size), np.float32),
        np.zeros(2 * TINY.packed_size, np.float32)[::2],
    ],
    ids=["float64", "too long", "two dimensions", "strided"],
)
def test_buffer_that_does_not_fit_is_refused(buffer: np.ndarray) -> None:
    with pytest.raises(NetworkError, match=r"'tiny': expected contiguous float32 \(96,\), got"):
        ParameterVector(TINY, buffer)


def test_initial_weights_fill_the_xavier_range_and_biases_are_zero() -> None:
    vector = ParameterVector(lenet(), np.full(lenet().packed_size, 9, np.float32))
    vector.initialise(seed=1)
    for spec in lenet().parameters:
        view = vector.views[spec.name]
        if spec.name.endswith(".bias"):
            assert not view.any()
            continue
        bound = math.sqrt(3 / math.prod(spec.shape[1:]))
        assert 0.99 * bound < abs(view).max() <= bound * (1 + 2**-23)
        # Uniform in ±bound: mean 0 and deviation bound / sqrt(3), within five standard errors.
        assert abs(view.mean()) < 5 * bound / math.sqrt(3 * view.size)
        assert view.std() == pytest.approx(bound / math.sqrt(3), rel=3 / math.sqrt(view.size))
    assert np.count_nonzero(vector.packed) <= 431_080  # the padding is zero again


def test_initial_weights_are_the_same_on_every_machine_and_for_ever() -> None:
    vector = ParameterVector(TINY)
    vector.initialise(seed=1)
    assert [value.hex() for value in vector.packed[:3].tolist()] == [
        "-0x1.001c0c0000000p-1",
        "-0x1.f1c7de0000000p-2",
        "-0x1.24301a0000000p-1",
    ]


def test_initial_weights_change_with_the_seed() -> None:
    first, second = ParameterVector(TINY), ParameterVector(TINY)
    first.initialise(seed=1)
    second.initialise(seed=2)
    assert np.count_nonzero(first.packed == second.packed) == TINY.packed_size - 27 - 24


def test_every_parameter_starts_as_its_layer_says() -> None:
    layers = (
        Convolution("conv", 64, 3, initialiser="msra", bias_value=0.25),
        BatchNormalisation("norm", initial_scale=0.5),
        Dense("dense", 50, initialiser="gaussian:0.01"),
    )
    vector = ParameterVector(Network("mixed", (8, 8, 16), layers))
    vector.packed.fill(9)
    vector.initialise(seed=1)
    constant = {
        "conv.bias": 0.25,
        "norm.scale": 0.5,
        "norm.shift": 0,
        "norm.running_mean": 0,
        "norm.running_variance": 1,
        "dense.bias": 0,
    }
    for name, value in constant.items():
        assert set(vector.views[name].tolist()) == {value}
    for name, deviation in (("conv.weights", math.sqrt(2 / 144)), ("dense.weights", 0.01)):
        view = vector.views[name]
        assert view.std() == pytest.approx(deviation, rel=5 / math.sqrt(2 * view.size))
    assert not vector.packed[vector.network.parameters[-1].offset + 50 :].any()


def test_lenet_starts_as_it_always_has() -> None:
    vector = ParameterVector(lenet())
    vector.initialise(seed=1)
    digest = hashlib.sha256(vector.packed.astype("<f4").tobytes()).hexdigest()
    assert digest == "a89f1cdee458ff18f8aa14b7601db4fcba2e09c866962716a14c176316ebd14d"
