"""Cables with a latency, between real namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.bench.nodes import cables
from knltrain.bench.nodes.hosts import Hosts, NoHosts
from knltrain.bench.nodes.link import link_gbytes_per_second

from ...hosts import hosts_or_skip

LATENCY_US = 3000.0

ANSWER = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as listener:
    print("here", flush=True)
    connection, _ = listener.accept()
    while word := connection.recv(1):
        connection.send(word)
"""
ASK = """
import json, socket, sys, time
connection = socket.create_connection((sys.argv[1], 7000))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
seconds = []
for _ in range(20):
    begin = time.perf_counter()
    connection.send(b"a")
    connection.recv(1)
    seconds.append(time.perf_counter() - begin)
print(json.dumps(seconds))
"""


def round_trips(made: Hosts) -> list[float]:
    """Seconds for a byte from the second host to the first and back."""
    answer = [*made.way(0), sys.executable, "-c", ANSWER, made.addresses[0]]
    with subprocess.Popen(answer, stdout=subprocess.PIPE, text=True) as answering:
        assert answering.stdout is not None
        assert answering.stdout.readline() == "here\n"
        ask = [*made.way(1), sys.executable, "-c", ASK, made.addresses[0]]
        said = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    found: list[float] = json.loads(said)
    return found


def test_a_round_trip_takes_the_latency_twice_at_least() -> None:
    with hosts_or_skip(2, latency_us=LATENCY_US) as made:
        assert min(round_trips(made)) >= 2 * LATENCY_US / 1e6
    with hosts_or_skip(2) as made:
        assert min(round_trips(made)) < 2 * LATENCY_US / 1e6


@pytest.mark.slow
def test_large_messages_arrive_at_a_rate_below_that_of_the_link() -> None:
    with hosts_or_skip(2, gbits=1.0, latency_us=50.0) as made:
        assert 0 < link_gbytes_per_second(made) < 1.0 / 8


@pytest.mark.slow
def test_host_at_the_end_of_a_cable_can_be_cut_off() -> None:
    with hosts_or_skip(2, latency_us=50.0) as made:
        made.cut_off(1)
        ask = [*made.way(1), sys.executable, "-c", "import socket, sys;"]
        ask[-1] += f"socket.create_connection(('{made.addresses[0]}', 9), 1)"
        found = subprocess.run(ask, capture_output=True, text=True).stderr
        assert "Connection refused" not in found
        assert "Error" in found


def test_what_the_kernel_refuses_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with hosts_or_skip(1):
        pass
    other = tmp_path / "no_cables.py"
    other.write_text("import sys; sys.exit('no tap devices: not permitted')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(cables, "__name__", "no_cables")
    with pytest.raises(NoHosts, match="no cables with a latency: no tap devices: not permitted"):
        Hosts(1, latency_us=5.0)
