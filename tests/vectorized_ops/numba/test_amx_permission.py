"""What Linux says when it is asked for tiles."""

from __future__ import annotations

import ctypes
import errno
import platform
import re
from types import SimpleNamespace

import pytest

from vectorized_ops.numba import amx_permission, cpuid
from vectorized_ops.numba.amx_permission import NEEDED, Tiles, tiles_here
from vectorized_ops.numba.cpuid import Registers

ask = amx_permission.amx_refusal.__wrapped__


def answering(monkeypatch: pytest.MonkeyPatch, number: int) -> list[tuple[int, ...]]:
    """Let Linux answer with this error, 0 for none; return what it was asked."""
    asked: list[tuple[int, ...]] = []

    def syscall(*words: ctypes.c_long) -> int:
        asked.append(tuple(word.value for word in words))
        ctypes.set_errno(number)
        return -1 if number else 0

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(amx_permission, "tiles_here", lambda: NEEDED)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(syscall=syscall))
    return asked


def test_the_tiles_registers_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, 0)
    assert ask() is None
    assert asked == [(158, 0x1023, 18)]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EOPNOTSUPP, r"Operation not supported \(neither this kernel nor its hypervisor"),
        (errno.EINVAL, r"Invalid argument \(Linux 5.16 or later"),
        (errno.ENOSPC, r"No space left on device \(a thread's stack for signals.*faulthandler"),
        (errno.EPERM, "Operation not permitted$"),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    number: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, number)
    assert re.match(f"arch_prctl says {said}", str(ask()))


def test_other_machines_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, 0)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "aarch64 has no tiles" in str(ask())
    assert not asked


def test_a_process_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    amx_permission.amx_refusal.cache_clear()
    asked = answering(monkeypatch, errno.EPERM)
    assert amx_permission.amx_refusal() == amx_permission.amx_refusal()
    assert len(asked) == 1
    amx_permission.amx_refusal.cache_clear()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            Tiles(0, 0, 0, 0, 0),
            "CPUID tells of 0 tiles of 0 rows of 0 bytes.*expected 8 tiles of 16",
        ),
        (NEEDED._replace(row_bytes=32), "8 tiles of 16 rows of 32 bytes"),
        (NEEDED._replace(product_rows=8), "products of 8 rows of 64"),
    ],
)
def test_other_tiles_are_refused(found: Tiles, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, 0)
    monkeypatch.setattr(amx_permission, "tiles_here", lambda: found)
    assert re.search(said, str(ask()))


SAPPHIRE_RAPIDS = {
    (0x1D, 0): Registers(1, 0, 0, 0),
    (0x1D, 1): Registers(0x0400_2000, 0x0008_0040, 0x10, 0),
    (0x1E, 0): Registers(0, 0x4010, 0, 0),
}
"""As Intel's manual has these leaves for palette 1."""


@pytest.mark.parametrize(
    ("answers", "expected"), [(SAPPHIRE_RAPIDS, NEEDED), ({}, Tiles(0, 0, 0, 0, 0))]
)
def test_tiles_are_those_that_the_processor_tells(
    answers: dict[tuple[int, int], Registers], expected: Tiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(leaf: int, part: int = 0) -> Registers:
        return answers.get((leaf, part), Registers(0, 0, 0, 0))

    monkeypatch.setattr(cpuid, "cpuid", answer)
    assert tiles_here() == expected
