from __future__ import annotations

import subprocess
import sys

import pytest

import affinity


def test_every_exported_name_resolves_to_itself() -> None:
    names = [getattr(affinity, name).__name__ for name in affinity.__all__]
    assert names == affinity.__all__


def test_pools_that_place_no_threads_are_pinned_by_functions_of_the_package() -> None:
    from affinity import main_thread_mask_kept, pin_own_threads

    assert {main_thread_mask_kept.__name__, pin_own_threads.__name__} <= {*affinity.__all__}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'affinity' has no attribute 'read_topologie'"):
        affinity.read_topologie  # noqa: B018


def test_starting_a_command_imports_neither_topology_nor_any_package() -> None:
    show = "import affinity.exec, sys; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", show], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    assert "affinity.process.binding" in output
    assert not {"affinity.topology", "dataclasses", "numpy", "numba", "torch"} & set(output)
