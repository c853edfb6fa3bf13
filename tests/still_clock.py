"""A clock that tests move on, in place of the monotonic one."""

from __future__ import annotations

import time

import pytest


class Clock:
    """`seconds` are those of `time.monotonic`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let the test say how late it is."""
    return Clock(monkeypatch)
