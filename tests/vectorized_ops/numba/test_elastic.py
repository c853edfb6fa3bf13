from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vectorized_ops.numba import elastic
from vectorized_ops.reference import elastic as reference

Update = Callable[[np.ndarray, np.ndarray], None]
PAIRS: list[tuple[Update, Update]] = [
    (
        lambda locals_, center: elastic.synchronous_elastic_update(locals_, center, 0.3),
        lambda locals_, center: reference.synchronous_elastic_update(locals_, center, 0.3),
    ),
    (elastic.synchronous_average, reference.synchronous_average),
    (elastic.synchronous_model_average, reference.synchronous_model_average),
    (elastic.synchronous_sum, reference.synchronous_sum),
]
NAMES = ["elastic", "average", "model average", "sum"]


def random_rows(workers: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a wider array, as in a segment: contiguous, but not next to each other."""
    rng = np.random.default_rng([workers, size])
    wide = rng.standard_normal((workers, size + 40), np.float32)
    return wide[:, 3 : 3 + size], rng.standard_normal(size, np.float32)


@pytest.mark.parametrize("compiled, plain", PAIRS, ids=NAMES)
@pytest.mark.parametrize("size", [0, 1, 15, 17, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_equals_reference_to_the_last_bit(
    compiled: Update, plain: Update, size: int, workers: int
) -> None:
    locals_, center = random_rows(workers, size)
    expected, expected_center = locals_.copy(), center.copy()
    compiled(locals_, center)
    plain(expected, expected_center)
    assert np.array_equal(locals_.view(np.int32), expected.view(np.int32))
    assert np.array_equal(center.view(np.int32), expected_center.view(np.int32))


@pytest.mark.parametrize("size", [0, 1, 17, 5000])
def test_exchange_of_one_worker_equals_reference_to_the_last_bit(size: int) -> None:
    locals_, center = random_rows(1, size)
    expected, expected_center = locals_[0].copy(), center.copy()
    elastic.elastic_update(locals_[0], center, 0.3)
    reference.elastic_update(expected, expected_center, 0.3)
    assert np.array_equal(locals_[0].view(np.int32), expected.view(np.int32))
    assert np.array_equal(center.view(np.int32), expected_center.view(np.int32))


@pytest.mark.parametrize("size", [0, 1, 17, 5000])
def test_increment_equals_reference_to_the_last_bit(size: int) -> None:
    locals_, center = random_rows(1, size)
    expected, before = locals_[0].copy(), center.copy()
    found, expected_increment = np.full((2, size), np.nan, np.float32)
    elastic.elastic_increment(locals_[0], center, found, 0.3)
    reference.elastic_increment(expected, before, expected_increment, 0.3)
    assert np.array_equal(locals_[0].view(np.int32), expected.view(np.int32))
    assert np.array_equal(found.view(np.int32), expected_increment.view(np.int32))
    assert np.array_equal(center, before)


def test_local_of_another_length_is_refused() -> None:
    three, four = np.zeros(3, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="same length"):
        elastic.elastic_update(three, four, 0.1)
    for wrong in ((three, four, four), (four, three, four), (four, four, three)):
        with pytest.raises(ValueError, match="same length"):
            elastic.elastic_increment(*wrong, 0.1)


@pytest.mark.parametrize("compiled", [pair[0] for pair in PAIRS], ids=NAMES)
def test_result_does_not_depend_on_where_stripes_are_cut(compiled: Update) -> None:
    locals_, center = random_rows(3, 4000)
    whole, whole_center = locals_.copy(), center.copy()
    compiled(whole, whole_center)
    for begin, end in [(0, 1), (1, 1030), (1030, 1030), (1030, 3999), (3999, 4000)]:
        compiled(locals_[:, begin:end], center[begin:end])
    assert np.array_equal(locals_, whole)
    assert np.array_equal(center, whole_center)


@pytest.mark.parametrize("compiled", [pair[0] for pair in PAIRS], ids=NAMES)
def test_columns_outside_the_stripe_stay_untouched(compiled: Update) -> None:
    wide = np.full((2, 3000), 5.0, np.float32)
    wide[0, 100:2900] = 1.0
    center = np.zeros(2800, np.float32)
    compiled(wide[:, 100:2900], center)
    assert np.all(wide[:, :100] == 5.0)
    assert np.all(wide[:, 2900:] == 5.0)
    assert not np.any(wide[:, 100:2900] == 5.0)


def test_rows_that_are_not_contiguous_are_refused() -> None:
    locals_ = np.zeros((2, 20), np.float32)[:, ::2]
    with pytest.raises(ValueError, match="contiguous"):
        elastic.synchronous_elastic_update(locals_, np.zeros(10, np.float32), 0.1)


def test_center_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="same number of columns"):
        elastic.synchronous_average(np.zeros((2, 20), np.float32), np.zeros(19, np.float32))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
@pytest.mark.parametrize(
    "compiled, arguments, instructions",
    [
        (
            elastic.synchronous_elastic_update,
            (*random_rows(2, 32), 0.3),
            {"subps", "mulps", "addps"},
        ),
        (elastic.synchronous_average, random_rows(2, 32), {"addps", "divps"}),
        (elastic.synchronous_sum, random_rows(2, 32), {"addps"}),
        (elastic.elastic_increment, (*random_rows(3, 32)[0], 0.3), {"subps", "mulps"}),
    ],
    ids=["elastic", "average", "sum", "increment"],
)
def test_inner_loops_are_compiled_to_vector_instructions(
    compiled: Any,
    arguments: tuple[Any, ...],
    instructions: set[str],
    assemblies: Callable[[Any], list[str]],
) -> None:
    compiled(*arguments)
    for assembly in assemblies(compiled):
        assert instructions <= {word.removeprefix("v") for word in assembly.split()}
