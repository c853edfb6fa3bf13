from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from knltrain.bench.nodes import hosts as hosts_module
from knltrain.bench.nodes.hosts import Hosts, NoHosts

from ...hosts import hosts_or_skip

ASK = "import socket, sys; socket.create_connection((sys.argv[1], 9), 2)"
"""Nobody listens there: a host that is reached refuses at once."""

HOLD = """
import time
from knltrain.bench.nodes.hosts import hosts
with hosts(2) as made:
    print(*made.names, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def two() -> Iterator[Hosts]:
    with hosts_or_skip(2) as made:
        yield made


def ask(made: Hosts, number: int, address: str) -> str:
    command = [*made.way(number), sys.executable, "-c", ASK, address]
    return subprocess.run(command, capture_output=True, text=True).stderr


def test_hosts_reach_each_other_and_nothing_else(two: Hosts) -> None:
    for number, other in ((0, 1), (1, 0)):
        assert "Connection refused" in ask(two, number, two.addresses[other])
    assert "unreachable" in ask(two, 0, "198.51.100.1")


@pytest.mark.slow
def test_host_that_is_cut_off_is_not_reached(two: Hosts) -> None:
    two.cut_off(1)
    assert "Connection refused" not in ask(two, 0, two.addresses[1])


def test_hosts_end_with_a_process_that_is_killed() -> None:
    with hosts_or_skip(1):
        pass
    made = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    holders = [int(each) for each in made.stdout.readline().split()]
    assert len(holders) == 2
    made.send_signal(signal.SIGKILL)
    made.communicate()
    deadline = time.monotonic() + 10
    for holder in holders:
        while _lives(holder):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_module.shutil, "which", lambda name: None if name == "tc" else name)
    with pytest.raises(NoHosts, match="hosts need tc: install iproute2"):
        Hosts(2)


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False
