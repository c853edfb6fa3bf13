from __future__ import annotations

import errno
import mmap
import os

import pytest

from affinity.process.kernel_call import CALL_NUMBERS, kernel_call


def test_error_of_the_kernel_comes_with_its_number_and_words() -> None:
    with pytest.raises(OSError, match="Invalid argument") as caught:
        kernel_call("madvise", 1, mmap.PAGESIZE, 0)
    assert caught.value.errno == errno.EINVAL


def test_unknown_processor_has_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.uname()
    unknown = os.uname_result((*real[:4], "pdp11"))
    monkeypatch.setattr(os, "uname", lambda: unknown)
    with pytest.raises(OSError, match="not implemented") as caught:
        kernel_call("mbind", 0, 0, 0, None, 0, 0)
    assert caught.value.errno == errno.ENOSYS


def test_numbers_are_those_of_the_kernels_tables() -> None:
    assert CALL_NUMBERS["x86_64"]["set_mempolicy"] == 238
    assert CALL_NUMBERS["aarch64"]["set_mempolicy"] == 237
    assert {frozenset(calls) for calls in CALL_NUMBERS.values()} == {
        frozenset({"madvise", "mbind", "set_mempolicy", "get_mempolicy", "move_pages"})
    }
