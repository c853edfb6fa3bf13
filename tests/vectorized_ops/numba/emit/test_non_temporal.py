from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit import non_temporal
from vectorized_ops.numba.emit.non_temporal import finish_stores, last_level_cache_bytes, streamed

MIB = 1 << 20


@kernel
def finished() -> int:
    finish_stores()
    return 7


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    for index, size in enumerate(["32K", "48K", "1024K", "33792K"]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert last_level_cache_bytes(tmp_path) == 33 * MIB


@pytest.mark.parametrize(
    ("cpus", "expected"), [("3", 32), ("ffffffff", 480), ("00000001,00000000", 16)]
)
def test_a_cache_that_is_too_large_for_the_cpus_at_hand_counts_as_shared_with_others(
    tmp_path: Path, cpus: str, expected: int
) -> None:
    (tmp_path / "index3").mkdir()
    (tmp_path / "index3" / "size").write_text("491520K\n")
    (tmp_path / "index3" / "shared_cpu_map").write_text(cpus + "\n")
    assert last_level_cache_bytes(tmp_path) == expected * MIB


def test_a_machine_that_does_not_tell_is_given_a_usual_size(tmp_path: Path) -> None:
    assert last_level_cache_bytes(tmp_path) == 32 * MIB


def test_only_what_would_not_fit_in_the_cache_is_stored_past_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(non_temporal, "STREAMED_BYTES", 1000)
    out = aligned_zeros((400,))
    assert streamed(out, 1001)
    assert not streamed(out, 1000)


def test_nothing_is_stored_past_the_caches_that_is_in_them_or_not_aligned(
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    out, other = aligned_zeros((400,)), aligned_zeros((400,))
    with storing(True):
        assert streamed(out, 4, other)
        assert not streamed(out, 4, other, out)
        assert not streamed(out[1:], 4)
    with storing(False):
        assert not streamed(out, 4)


def test_kernels_go_on_after_their_stores_are_finished() -> None:
    assert finished() == 7


def test_threshold_is_a_third_of_the_cache_at_hand() -> None:
    assert last_level_cache_bytes() // 3 == non_temporal.STREAMED_BYTES
