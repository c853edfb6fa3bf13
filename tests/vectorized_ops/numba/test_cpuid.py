"""What the processor tells of itself is what Linux has heard from it."""

from __future__ import annotations

import platform
import re
import struct
from pathlib import Path

import pytest

from vectorized_ops.numba.cpuid import Registers, cpuid

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86-64 only")


def told(key: str) -> str:
    found = re.search(rf"^{key}\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_vendor_is_that_of_linux() -> None:
    _, ebx, ecx, edx = cpuid(0)
    assert struct.pack("<3I", ebx, edx, ecx).decode() == told("vendor_id")


def test_parts_of_a_leaf_are_told_apart() -> None:
    flags = told("flags").split()
    assert bool(cpuid(7, 0).ebx >> 5 & 1) is ("avx2" in flags)
    assert bool(cpuid(7, 1).eax >> 5 & 1) is ("avx512_bf16" in flags)


def test_leaves_that_there_are_not_are_zero() -> None:
    assert cpuid(0x7FFF_0000) == Registers(0, 0, 0, 0)
