"""A box, and other processes that come to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox

REPOSITORY = Path(__file__).parents[5]
PEER = Path(__file__).with_name("peer.py")
ROOM = 2**20
Peer = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def box() -> Iterator[SoftMemoryBox]:
    with SoftMemoryBox.create(ROOM, timeout_seconds=20) as created:
        yield created


@pytest.fixture
def peer(box: SoftMemoryBox) -> Iterator[Peer]:
    """Start a process that comes to the box: `peer(buffer, action, count)`."""
    started: list[subprocess.Popen[str]] = []

    def start(buffer: Buffer, action: str, count: int = 0) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, str(PEER), box.address, str(buffer.key), action, str(count)],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
