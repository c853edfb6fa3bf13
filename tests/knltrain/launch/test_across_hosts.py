"""Real runs on hosts of their own addresses (network namespaces): how they begin, go on and end.

The hosts share this machine's cores, hence no pinning.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from knltrain.bench.nodes.hosts import WAY, Hosts
from knltrain.cluster.task import own_variables
from knltrain.exchange.oneccl.library import installed

from ..hosts import hosts_or_skip, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("two_cores")]

NODES = 2
SHARED_MEMORY = Path("/dev/shm")
OF_MPI = ("Intel_MPI", "mpich_shm")
ENDLESS = ("--set", "train.steps=100000000", "--set", "evaluation.every_epochs=0")
GLOO = ("--set", "exchange.between_nodes=gloo")


@pytest.fixture(scope="module")
def made() -> Iterator[Hosts]:
    with hosts_or_skip(NODES) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, run_toml: str) -> Path:
    (tmp_path / "run.toml").write_text(run_toml)
    return tmp_path


def words(*more: str) -> list[str]:
    return ["train", "run.toml", "--workers", "2", "--set", "placement.pin=false", *more]


def launched(
    made: Hosts,
    folder: Path,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    way: str = WAY,
) -> subprocess.Popen[str]:
    """`knltrain launch` on all hosts."""
    hosts_of = ("--hosts", ",".join(made.names), "--address", made.addresses[0])
    return subprocess.Popen(
        [sys.executable, "-m", "knltrain", "launch", *hosts_of, "--via", way, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def started(made: Hosts, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A run on all hosts, which ends with the block."""
    process = launched(made, folder, *words(*more))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs/run/result.json").read_text())
    return found


def _skip_without(way: str) -> None:
    if way == "ccl" and installed() is None:
        pytest.skip("oneCCL is not installed")
    if way == "mpi" and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("MPI is not installed")


METHODS = ["sync_easgd3", "hierarchical_easgd", "hierarchical_sgd", "sync_sgd", "layerwise_sgd"]


@pytest.mark.parametrize(
    ("way", "method"),
    [
        *((way, method) for way in ("gloo", "ccl") for method in METHODS),
        ("mpi", "hierarchical_easgd"),
        ("mpi", "layerwise_sgd"),
        ("mpi", "seasgd"),
        ("mpi", "shmcaffe_h"),
        ("mpi", "downpour"),
        ("mpi", "caffegpi"),
    ],
)
def test_workers_of_two_hosts_train_one_model(
    made: Hosts, folder: Path, way: str, method: str
) -> None:
    _skip_without(way)
    chosen = ("--set", f"exchange.between_nodes={way}", "--set", f"exchange.method={method}")
    size = ("--set", "data.train_images=960", "--set", "train.epochs=4")
    with started(made, folder, *chosen, *size) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert f"by {method} with 4 workers on 2 nodes, exchanging by {way}" in out
    assert results(folder)["test_accuracy"] > 0.9
    run = folder / "runs/run"
    for rank in range(4):
        assert (run / f"worker-{rank}.log").exists()
        assert list(run.glob(f"checkpoint-*/worker-{rank}.safetensors"))
    ranks = [
        [worker["rank"] for worker in json.loads((run / name).read_text())["workers"]]
        for name in ("placement.json", "placement-2.json")
    ]
    assert ranks == [[0, 1], [2, 3]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "method"),
    [
        ("gloo", "sync_easgd3"),
        ("ccl", "hierarchical_easgd"),
        ("mpi", "seasgd"),
        ("mpi", "caffegpi"),
    ],
)
def test_three_hosts_train_over_links_with_a_latency(folder: Path, way: str, method: str) -> None:
    _skip_without(way)
    chosen = ("--set", f"exchange.between_nodes={way}", "--set", f"exchange.method={method}")
    size = ("--set", "data.train_images=960", "--set", "train.batch=48")
    one_each = ("--workers", "1", "--set", "train.epochs=4", *size)
    with (
        hosts_or_skip(3, gbits=25.0, latency_us=200.0) as made,
        started(made, folder, *chosen, *one_each) as process,
    ):
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert results(folder)["test_accuracy"] > 0.9


@pytest.mark.parametrize(
    "chosen",
    [
        ["exchange.method=hierarchical_easgd"],
        ["exchange.method=diloco", "exchange.communication_period=3"],
        ["exchange.method=sync_sgd"],
        ["exchange.method=caffegpi", "exchange.between_nodes=mpi"],
        ["exchange.method=sync_sgd", "exchange.wire_format=int8"],
        ["exchange.method=sync_easgd3", "exchange.wire_format=top_k"],
        [
            "exchange.method=diloco",
            "exchange.communication_period=3",
            "exchange.wire_format=top_k",
            "exchange.wire_top_share=0.05",
        ],
        [
            "exchange.method=hierarchical_sgd",
            "exchange.group_period=2",
            "exchange.communication_period=4",
            "exchange.wire_format=int8",
        ],
    ],
    ids=" ".join,
)
def test_run_goes_on_from_its_checkpoint_to_the_same_bits(
    made: Hosts, folder: Path, chosen: list[str]
) -> None:
    """A node keeps the outer momentum of DiLoCo, and what was not sent yet, beside its replica."""
    if "exchange.between_nodes=mpi" in chosen and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("MPI is not installed")
    method = (*GLOO, *(word for key in chosen for word in ("--set", key)))
    with started(made, folder, *method, "--set", "train.steps=12") as process:
        assert process.communicate(timeout=300)[1].count("error") == 0
    with started(made, folder, *method, "--set", "train.steps=6", "--name", "half") as process:
        process.communicate(timeout=300)
    resumed = launched(made, folder, "train", "--resume", "runs/half", "--set", "train.steps=12")
    _, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, err
    for name in ("center", "worker-0", "worker-2", "worker-3"):
        whole, halved = (
            load_file(folder / f"runs/{run}/checkpoint-12/{name}.safetensors")
            for run in ("run", "half")
        )
        assert whole.keys() == halved.keys()
        for key in whole:
            assert np.array_equal(whole[key], halved[key]), (name, key)


def test_several_groups_of_a_host_each_come_to_the_center(made: Hosts, folder: Path) -> None:
    """Four workers of a host in two groups, whose roots share a segment and the host's shard."""
    _skip_without("mpi")
    chosen = ("--set", "exchange.method=shmcaffe_h", "--set", "exchange.group_size=2")
    more = ("--workers", "4", "--set", "data.train_images=960", "--set", "train.epochs=4")
    ends = ("--set", "exchange.termination=average")
    with started(made, folder, *chosen, *more, *ends) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found = results(folder)
    assert found["test_accuracy"] > 0.9
    assert found["exchange_bytes"] == pytest.approx(4 * 431_080, 0.001)
    steps = found["worker_steps"]
    assert steps[0::2] == steps[1::2]
    assert sum(steps) // 8 == found["steps"]
    locals_ = [
        load_file(next(folder.glob(f"runs/run/checkpoint-*/worker-{rank}.safetensors")))["local"]
        for rank in range(8)
    ]
    for rank in range(0, 8, 2):
        assert np.array_equal(locals_[rank], locals_[rank + 1])
    assert not any(np.array_equal(locals_[0], other) for other in locals_[2::2])


@pytest.mark.parametrize("method", ["seasgd", "shmcaffe_h"])
def test_workers_that_come_alone_go_on_from_their_checkpoint(
    made: Hosts, folder: Path, method: str
) -> None:
    _skip_without("mpi")
    more = ("--set", f"exchange.method={method}", "--set", "data.train_images=960")
    with started(made, folder, *more, "--set", "train.steps=60") as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found = results(folder)
    assert found["test_accuracy"] > 0.9
    words_on = ("train", "--resume", "runs/run", "--set", "train.steps=61")
    process = launched(made, folder, *words_on)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert results(folder)["steps"] == 61
    assert abs(results(folder)["test_accuracy"] - found["test_accuracy"]) < 0.05


@pytest.mark.parametrize(
    ("method", "written"),
    [
        ("sync_easgd", "bfloat16"),
        ("sync_easgd3", "int8"),
        ("sync_sgd", "top_k"),
        ("hierarchical_easgd", "top_k"),
    ],
)
def test_model_is_trained_by_what_is_sent_in_fewer_bytes(
    made: Hosts, folder: Path, method: str, written: str
) -> None:
    chosen = ("--set", f"exchange.wire_format={written}", "--set", f"exchange.method={method}")
    size = ("--set", "data.train_images=960", "--set", "train.epochs=4")
    with started(made, folder, *GLOO, *chosen, *size) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert f"on 2 nodes, exchanging by gloo in {written}" in out
    found = results(folder)
    assert found["test_accuracy"] > 0.9
    assert found["wire_format"] == written
    per_value = found["exchange_bytes"] / 431_080
    assert per_value == pytest.approx({"bfloat16": 2, "int8": 1.016, "top_k": 0.08}[written], 0.01)


def test_other_configuration_on_a_host_is_named_on_both(made: Hosts, folder: Path) -> None:
    tasks = [
        run(
            made,
            number,
            ["-m", "knltrain", *words(*GLOO, "--set", f"seed={number}")],
            own_variables(number, NODES, folder.name, made.addresses[0]),
            folder,
        )
        for number in range(NODES)
    ]
    for task in tasks:
        out, _ = task.communicate(timeout=120)
        assert task.returncode == 2
        assert "seed = 1 instead of 0" in out
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("way", "method", "variable"),
    [
        ("ccl", "sync_easgd", "FI_TCP_IFACE"),
        ("mpi", "sync_easgd", "FI_TCP_IFACE"),
        ("mpi", "seasgd", "FI_TCP_IFACE"),
        ("gloo", "sync_easgd", "GLOO_SOCKET_IFNAME"),
    ],
)
@pytest.mark.parametrize("name", ["lo", "ib7"])
def test_interface_that_leads_to_no_other_host_is_refused(
    made: Hosts, folder: Path, way: str, method: str, variable: str, name: str
) -> None:
    _skip_without(way)
    chosen = ("--set", f"exchange.between_nodes={way}", "--set", f"exchange.method={method}")
    process = launched(made, folder, *words(*chosen), variables={variable: name})
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert re.search(rf"^error: .*{variable}={name}: '{name}' on ", err, re.MULTILINE), err
    assert "or the variable not to be set" in err


SMALL_SHARED_MEMORY = """#!/bin/sh
host=$1
shift
if [ "$host" = {small} ]; then
    mount='mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"'
    exec nsenter --net=/proc/$host/ns/net unshare --mount sh -c "$mount" sh "$@"
fi
exec nsenter --net=/proc/$host/ns/net "$@"
"""


@pytest.mark.parametrize(("way", "method"), [("gloo", "sync_easgd"), ("mpi", "seasgd")])
def test_host_without_room_in_its_shared_memory_is_refused(
    made: Hosts, folder: Path, way: str, method: str
) -> None:
    _skip_without(way)
    script = folder / "way"
    script.write_text(SMALL_SHARED_MEMORY.format(small=made.names[1]))
    script.chmod(0o700)
    chosen = ("--set", f"exchange.between_nodes={way}", "--set", f"exchange.method={method}")
    process = launched(made, folder, *words(*chosen), way=f"{script} {{host}}")
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert re.search(r"^error: .*/dev/shm", err, re.MULTILINE), err


def test_number_of_computers_that_is_not_there_is_refused(made: Hosts, folder: Path) -> None:
    with started(made, folder, *GLOO, "--set", "nodes=3", "--set", "train.batch=24") as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "nodes = 3, but this process is started on 2" in err


def _endless(way: str, method: str) -> tuple[str, ...]:
    """A run that does not end by itself."""
    _skip_without(way)
    chosen = (f"exchange.between_nodes={way}", f"exchange.method={method}")
    return (*ENDLESS, *(word for key in chosen for word in ("--set", key)))


@pytest.fixture(
    params=[("gloo", "sync_easgd"), ("mpi", "sync_easgd"), ("mpi", "seasgd")],
    ids=lambda chosen: " ".join(chosen),
)
def endless(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return _endless(*request.param)


@pytest.fixture
def nothing_stays(folder: Path) -> Iterator[None]:
    """Fails a test after which a process of its run lives, or MPI's shared memory is there."""
    before = set(SHARED_MEMORY.iterdir())
    yield
    deadline = time.monotonic() + 30
    while left := [*_processes(folder), *(_files_of_mpi() - before)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method", "rank"),
    [
        ("gloo", "sync_easgd", 3),
        ("mpi", "sync_easgd", 3),
        ("mpi", "seasgd", 3),
        ("mpi", "seasgd", 2),
        ("mpi", "caffegpi", 3),
        pytest.param("mpi", "shmcaffe_h", 2, id="the root of a group"),
        pytest.param("mpi", "shmcaffe_h", 3, id="another worker of a group"),
    ],
)
def test_worker_that_is_killed_ends_the_run_on_all_hosts(
    made: Hosts, folder: Path, way: str, method: str, rank: int
) -> None:
    with started(made, folder, *_endless(way, method)) as process:
        _wait_for_steps(folder, process)
        _kill_worker(folder, rank)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"worker {rank} failed: it was killed by SIGKILL" in err
    gone = rf"^error: task 1 \(\S+\) is gone: worker {rank} failed"
    assert re.search(gone, err, re.MULTILINE), err


@pytest.mark.usefixtures("nothing_stays")
def test_process_of_a_host_that_is_killed_ends_the_run_on_the_others(
    made: Hosts, folder: Path, endless: tuple[str, ...]
) -> None:
    with started(made, folder, *endless) as process:
        _wait_for_steps(folder, process)
        (task,) = _processes(folder, "KNLTRAIN_TASK_RANK=1", absent="knltrain.launch")
        os.kill(task, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert re.search(r"error: task 1 \(\S+\) is gone", err), err


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize("number", [0, 1])
def test_host_that_is_cut_off_ends_the_run_on_the_others(
    folder: Path, endless: tuple[str, ...], number: int
) -> None:
    """Each host tells that the other one is gone; by MPI calls for it would not return."""
    with hosts_or_skip(NODES) as made, started(made, folder, *endless) as process:
        _wait_for_steps(folder, process)
        made.cut_off(number)
        _, err = process.communicate(timeout=90)
        assert process.returncode != 0
        for told in (r"^error: task 1 \(\S+\) is gone", r": error: task 0 \(\S+\) is gone"):
            assert re.search(told, err, re.MULTILINE), err


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_run_on_all_hosts(
    made: Hosts, folder: Path, endless: tuple[str, ...], number: signal.Signals
) -> None:
    with started(made, folder, *endless) as process:
        _wait_for_steps(folder, process)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert f"error: stopped by {number.name}" in err


@pytest.mark.usefixtures("nothing_stays")
def test_launcher_that_is_killed_leaves_nothing(
    made: Hosts, folder: Path, endless: tuple[str, ...]
) -> None:
    with started(made, folder, *endless) as process:
        _wait_for_steps(folder, process)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while _processes(folder, "KNLTRAIN_TASK_COUNT=2"):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _wait_for_steps(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    metrics = folder / "runs/run/metrics-0.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


def _files_of_mpi() -> set[Path]:
    return {each for each in SHARED_MEMORY.iterdir() if each.name.startswith(OF_MPI)}


def _kill_worker(folder: Path, rank: int) -> None:
    (worker,) = _processes(folder, f"KNLTRAIN_RANK={rank}\0")
    os.kill(worker, signal.SIGKILL)


def _processes(folder: Path, *marks: str, absent: str | None = None) -> list[int]:
    """Processes in a folder with all marks in their environment or command, and not `absent`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            said = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            is_one = all(mark.encode() in said for mark in marks)
            if absent is not None and absent.encode() in said:
                is_one = False
            if is_one and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found
