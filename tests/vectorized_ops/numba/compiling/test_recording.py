"""What is noted instead of called."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from vectorized_ops.numba.compiling.cache import EntryNames, SharedKernels
from vectorized_ops.numba.compiling.cache_folder import CacheFolder
from vectorized_ops.numba.compiling.recording import (
    WantedKernel,
    active_recorder,
    prepare,
    recording,
)


def wanted(name: str, folder: Path) -> WantedKernel:
    names = EntryNames(name, f"packaged-{name}")
    shared = SharedKernels(CacheFolder(folder))
    return WantedKernel(names, (name, "()"), 1, frozenset(), list, shared)


def test_each_kernel_is_noted_once_in_the_order_of_first_calls(tmp_path: Path) -> None:
    with recording() as recorder:
        for name in ("b", "a", "b"):
            recorder.note(name, partial(wanted, name, tmp_path))
        recorder.note("another that calls it", partial(wanted, "a", tmp_path))
    assert [one.names.own for one in recorder.wanted] == ["b", "a"]


def test_the_innermost_recorder_takes_notes_and_none_does_afterwards() -> None:
    assert active_recorder() is None
    with recording() as outer:
        with recording() as inner:
            assert active_recorder() is inner
        assert active_recorder() is outer
        with pytest.raises(RuntimeError), recording():
            raise RuntimeError("of the work")
        assert active_recorder() is outer
    assert active_recorder() is None


def test_what_some_work_needs_is_made_after_it_and_nothing_is_noted_any_more(
    tmp_path: Path,
) -> None:
    made: list[str] = []

    def work() -> None:
        recorder = active_recorder()
        assert recorder is not None
        assert recorder.has_tiles
        for name in ("b", "a", "b"):
            kernel = replace(wanted(name, tmp_path), make=partial(made.append, name))
            recorder.note(name, lambda kernel=kernel: kernel)
        assert made == []

    prepare(work)
    assert made == ["b", "a"]
    assert active_recorder() is None
