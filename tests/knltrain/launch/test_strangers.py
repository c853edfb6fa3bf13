"""A real run of two tasks whose port strangers find while it gathers: it goes on as if alone."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from affinity import allowed_cpus, physical_cores, pinned_command, read_topology
from knltrain.cluster.task import Task, own_variables
from knltrain.communication.rendezvous import rendezvous
from knltrain.communication.rendezvous.handshake import hello

ROOT = Path(__file__).parents[3]
CHOSEN = (
    *("placement.pin=false", "exchange.between_nodes=gloo", "train.steps=2"),
    *("data.train_images=64", "evaluation.every_epochs=0"),
)


def started(folder: Path, rank: int, job: str, cpus: tuple[int, ...]) -> subprocess.Popen[str]:
    sets = (word for key in CHOSEN for word in ("--set", key))
    command = [sys.executable, "-m", "knltrain", "train", "run.toml", "--workers", "1", *sets]
    return subprocess.Popen(
        pinned_command(command, cpus),
        cwd=folder,
        env={
            **os.environ,
            **own_variables(rank, 2, job, "127.0.0.1"),
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(folder / "config"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def port_of(job: str, first: subprocess.Popen[str]) -> int:
    """Where the first task listens, once it does."""
    ports = rendezvous._ports(Task("a stranger", 1, 2, 0, 1, "1", job, "127.0.0.1"))
    while first.poll() is None:
        for port in ports:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
                return port
        time.sleep(0.05)
    raise AssertionError(first.communicate())


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_run_that_strangers_find_while_it_gathers_goes_on(tmp_path: Path, run_toml: str) -> None:
    (tmp_path / "run.toml").write_text(run_toml)
    cores = [core.cpus for core in physical_cores(read_topology(), allowed_cpus())]
    job = secrets.token_hex(4)
    with ExitStack() as ended:
        first = started(tmp_path, 0, job, cores[0])
        ended.callback(first.kill)
        address = ("127.0.0.1", port_of(job, first))
        for said in (b"[" * 100_000, b'{"rank": 1}\n', hello(1) + bytes(32), hello(2**31)):
            with suppress(OSError), socket.create_connection(address, 20) as stranger:
                stranger.sendall(said)
        silent = [ended.enter_context(socket.create_connection(address, 20)) for _ in range(100)]
        other = started(tmp_path, 1, job, cores[1])
        ended.callback(other.kill)
        out, _ = first.communicate(timeout=200)
        others_out, _ = other.communicate(timeout=60)
    assert len(silent) == 100
    assert (first.returncode, other.returncode) == (0, 0), out + others_out
    assert "turned away a stranger from 127.0.0.1: it does not speak the protocol" in out
    assert json.loads((tmp_path / "runs/run/result.json").read_text())["steps"] == 2
    assert list((tmp_path / "config").rglob("*.secret*")) == []
    assert not [path for path in (tmp_path / "runs").rglob("*") if "SECRET" in text_of(path)]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("latin-1") if path.is_file() else ""
