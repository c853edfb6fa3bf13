"""Puts a `Seam` between the real exchange code and what it touches of other workers.

Looks are few: how often a worker looks before it sleeps does not matter to what it may see.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from interleaving.seam import Seam

from knltrain.communication.memory_box.local import box, buffer, stripes
from knltrain.communication.shared_memory import atomics, polling, process_identity
from knltrain.exchange.transports import barrier, center_locks, peer_wait
from vectorized_ops.reference import vectors

KERNELS = ("publish", "watch", "read", "add", "take", "take_over", "give_back")
LOOKS = {
    barrier: {"_PAUSES": 1, "_YIELDS": 0},
    center_locks: {"PATIENT_LOOKS": 2, "_LOOKS_AT_TURN": 1},
    buffer: {"PATIENT_LOOKS": 2, "_LOOKS": 2},
    box: {"PATIENT_LOOKS": 2},
    stripes: {},
}
CALLS: tuple[tuple[type, str], ...] = (
    (barrier.Barrier, "wait"),
    (barrier.Barrier, "_all_are_here"),
    (barrier.Barrier, "_missing"),
    (peer_wait.PeerWait, "check"),
    (peer_wait.PeerWait, "_check_alive"),
    (center_locks.CenterLocks, "_holder_word"),
    (center_locks.CenterLocks, "_is_past"),
)
"""Of which a worker remembers no more than the result: they change nothing else of its own."""


_OPERATE = stripes._operate.py_func  # type: ignore[attr-defined]
"""As it was before anything is put in its place: a test may do so several times."""


def install(seam: Seam, patch: pytest.MonkeyPatch) -> None:
    """Put the seam between the real code and its shared memory."""
    patch.setattr(atomics, "_load_acquire", seam.load_acquire)
    patch.setattr(atomics, "_store_release", seam.store_release)
    patch.setattr(atomics, "_compare_exchange", seam.compare_exchange)
    patch.setattr(atomics, "_fetch_add", seam.fetch_add)
    patch.setattr(atomics, "_pause", lambda: None)
    patch.setattr(atomics, "_sched_yield", lambda: None)
    patch.setattr(process_identity, "own_identity", seam.own_identity)
    patch.setattr(process_identity, "is_alive", seam.is_alive)
    patch.setattr(process_identity, "standstill", lambda identity: None)
    patch.setattr(process_identity, "run_delay_seconds", lambda identity: 0.0)
    clock = SimpleNamespace(monotonic=seam.seconds, sleep=seam.sleep)
    patch.setattr(polling, "time", clock)
    for module in (peer_wait, buffer, box):
        patch.setattr(module, "nap_until", seam.nap_until)
    for module, settings in LOOKS.items():
        for name in KERNELS:
            if hasattr(module, name):
                patch.setattr(module, name, _remembered(seam, getattr(atomics, name).py_func))
        for name, value in settings.items():
            patch.setattr(module, name, value)
    patch.setattr(buffer, "work_on_stripes", stripes.work_on_stripes.py_func)  # type: ignore[attr-defined]
    patch.setattr(stripes, "_operate", _OPERATE)
    for name in ("accumulate", "axpby", "scale"):
        patch.setattr(stripes, name, getattr(vectors, name))
    for owner, name in CALLS:
        patch.setattr(owner, name, _remembered(seam, getattr(owner, name)))


def _remembered(seam: Seam, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function after whose return its result is all that a worker remembers of it."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        with seam.machine.remembering_result_only(function.__name__) as remember:
            result = function(*arguments)
            remember(result)
        return result

    return run
