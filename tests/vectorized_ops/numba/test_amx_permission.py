"""What Linux says when it is asked for tiles."""

from __future__ import annotations

import ctypes
import errno
import platform
import re
from types import SimpleNamespace

import pytest

from vectorized_ops.numba import amx_permission

ask = amx_permission.amx_refusal.__wrapped__


def answering(monkeypatch: pytest.MonkeyPatch, number: int) -> list[tuple[int, ...]]:
    """Let Linux answer with this error, 0 for none; return what it was asked."""
    asked: list[tuple[int, ...]] = []

    def syscall(*words: ctypes.c_long) -> int:
        asked.append(tuple(word.value for word in words))
        ctypes.set_errno(number)
        return -1 if number else 0

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
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
