from __future__ import annotations

import os
import signal
import subprocess

import pytest

from knltrain.exchange import process


def test_this_process_is_alive_and_not_stopped() -> None:
    identity = process.own_identity()
    assert process.process_id(identity) == os.getpid()
    assert process.is_alive(identity)
    assert not process.is_stopped(identity)


def test_process_with_a_reused_id_is_not_taken_for_the_old_one() -> None:
    started_before = process.own_identity() - (1 << 22)
    assert process.process_id(started_before) == os.getpid()
    assert not process.is_alive(started_before)


def test_killed_process_is_not_alive_even_before_its_parent_knows() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        identity = process.identity_of(child.pid)
        assert identity is not None
        assert process.is_alive(identity)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not process.is_alive(identity)
    assert process.identity_of(child.pid) is None


def test_stopped_process_is_alive() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        identity = process.identity_of(child.pid)
        assert identity is not None
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert process.is_stopped(identity)
        assert process.is_alive(identity)
        child.kill()


def test_missing_procfs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "identity_of", lambda process_id: None)
    with pytest.raises(OSError, match="procfs"):
        process.own_identity()
