"""The benchmark of exchanges as a whole: real contestants, short rounds."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from affinity.process.other_process import children
from knltrain.bench.exchange import benchmark, turns
from knltrain.bench.exchange.benchmark import run_exchange_benchmark
from knltrain.bench.exchange.table import format_table
from knltrain.bench.step.peer_process import PeerError
from knltrain.communication.oneccl import library
from knltrain.errors import ConfigError

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")

OPTIONAL = ("oneccl", "oneccl-shm", "ccl", "mpi")
MASTERS = ["sync_easgd1", "original_easgd", "one visit"]
CONTESTANTS = [
    *("sync_easgd", "average", "visit", "gloo", *MASTERS, "read, write by 2", "accumulate by 2")
]


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.004)
    monkeypatch.setattr(turns, "COPIED_FLOATS", 1 << 20)


@pytest.fixture(scope="module")
def report():
    with pytest.MonkeyPatch.context() as patch:  # not for the tests after it, which want oneCCL
        patch.setattr(turns, "TURN_SECONDS", 0.004)
        patch.setattr(turns, "COPIED_FLOATS", 1 << 20)
        patch.setattr(library, "PACKAGE", "no-such-package")
        return run_exchange_benchmark([4096, 65536, 2**50], 2, 2, ["gloo", "oneccl"], "lenet")


@pytest.mark.slow
def test_every_size_has_a_row_for_everyone(report):
    places = [(row["bytes"], row["contestant"]) for row in report["rows"]]
    assert places == [(size, name) for size in (4096, 65536) for name in CONTESTANTS]
    for row in report["rows"]:
        assert 0 < row["least_seconds"] <= row["seconds"] < 10
        assert len(row["rounds"]) == 2
        assert row["share_of_copy"] > 0
        wanted = {"gloo"} if row["contestant"] in CONTESTANTS[:3] else set()
        assert set(row["faster_than"]) == wanted
    assert set(report["lines"]) == set(CONTESTANTS[:4])
    assert report["copy_gbytes_per_second"] > 0


@pytest.mark.slow
def test_a_tree_and_turns_are_predicted_beside_what_they_took(report):
    masters = report["masters"]
    taken = [row for row in masters["rows"] if row["seconds"]]
    places = [(row["contestant"], row["bytes"], row["workers"]) for row in taken]
    assert places == [(name, size, 2) for size in (4096, 65536) for name in MASTERS[:2]]
    assert all(row["by_line"] > 0 and row["by_size"] > 0 for row in masters["rows"])


@pytest.mark.slow
def test_what_could_not_be_measured_is_told_in_words(report):
    assert "oneCCL is not installed" in report["absent"]["oneccl"]
    assert report["left_out"][0]["bytes"] == 2**50
    assert "of memory at once" in report["left_out"][0]["reason"]
    assert report["peers"] == ["gloo"]


@pytest.mark.slow
def test_packing_is_measured_and_predicted(report):
    packing = report["packing"]
    assert (packing["network"], packing["layers"]) == ("lenet", 8)
    assert [row["contestant"] for row in packing["rows"]] == CONTESTANTS[:4]
    for row in packing["rows"]:
        assert row["gain"] > 0
        assert row["predicted_gain"] > 0.99  # without latency, the padding of the packed vector


@pytest.mark.slow
def test_report_can_be_written_and_shown(report):
    assert json.loads(json.dumps(report)) == report
    assert "oneccl cannot run: oneCCL is not installed" in format_table(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_libraries_run_where_they_are_installed(name, short):
    report = run_exchange_benchmark([4096, 28_000_000], 2, 2, [name])
    if name in report["absent"]:
        assert "pip install" in report["absent"][name]
        pytest.skip(report["absent"][name])
    assert {row["contestant"] for row in report["rows"]} >= {name}


def test_what_cannot_be_measured_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match=r"unknown peer 'glo'.*did you mean 'gloo'"):
        run_exchange_benchmark([4096], 2, 1, ["glo"])
    with pytest.raises(ConfigError, match="lenett"):
        run_exchange_benchmark([4096], 2, 1, [], "lenett")
    for workers in (1, 4096):
        with pytest.raises(ConfigError, match=f"--workers {workers}: expected at least 2, and"):
            run_exchange_benchmark([4096], workers, 1, [])
    with pytest.raises(ConfigError, match=r"--sizes: none fits; with .* of memory at once"):
        run_exchange_benchmark([2**50], 2, 1, [])


def test_a_network_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(benchmark, "available_bytes", lambda: 2**31)
    with pytest.raises(ConfigError, match=r"--network vgg-16: the contestants need"):
        run_exchange_benchmark([4096], 2, 1, ["gloo"], "vgg-16")


def test_a_library_that_cannot_start_is_absent_but_ours_must_run(monkeypatch):
    held = []

    def assembled(stack, name, processes):
        if name == broken:
            raise PeerError(f"'{name}' ended")
        return SimpleNamespace(hold=lambda *what: held.append((name, *what)))

    monkeypatch.setattr(benchmark, "started", lambda *_: [])
    monkeypatch.setattr(benchmark, "assembled", assembled)
    broken = "gloo"
    with ExitStack() as stack:
        crews, absent = benchmark._assembled(stack, ["gloo", "mpi"], [[0], [1]], [])
    assert list(crews) == ["mpi", "copy", "segment", "box"]
    assert absent == {"gloo": "'gloo' ended"}
    assert held == [("copy", "copy", [turns.COPIED_FLOATS])]
    broken = "segment"
    with ExitStack() as stack, pytest.raises(PeerError, match="'segment' ended"):
        benchmark._assembled(stack, ["gloo"], [[0], [1]], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "stopped by SIGINT"),
        (signal.SIGKILL, ""),
    ],
)
def test_a_benchmark_that_is_stopped_leaves_nothing(number, said, tmp_path):
    command = [sys.executable, "-m", "knltrain", "bench", "exchange", "--sizes", "4K", "--peers="]
    stopped = subprocess.Popen(
        [*command, "--rounds", "1000"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    members = []
    while not any("segment_member" in line for line in members):
        assert stopped.poll() is None, stopped.stderr.read()
        members = [line for pid in children(stopped.pid) for line in [command_of(pid)]]
        time.sleep(0.05)
    pids = children(stopped.pid)
    assert len(pids) >= 3
    stopped.send_signal(number)
    _, error = stopped.communicate(timeout=60)
    assert said in error
    for _ in range(200):
        if not any(command_of(pid) for pid in pids):
            break
        time.sleep(0.01)
    assert [command_of(pid) for pid in pids if command_of(pid)] == []
    assert list(tmp_path.iterdir()) == []


def command_of(pid):
    """The command of a process; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
