"""Real runs on hosts of their own addresses (network namespaces): how they begin, go on and end.

The hosts share this machine's cores, hence no pinning. A run takes seconds of all of them, most of
them to start its processes: so what can be looked at after one run is, and what goes over the
ground of another test once more, by another method or another way, is `long`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
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

from knltrain.bench.methods.settings import MNIST_SETTINGS
from knltrain.bench.nodes.hosts import WAY, Hosts
from knltrain.cluster.task import own_variables
from knltrain.communication.oneccl.library import installed
from knltrain.config import load_config
from knltrain.config.methods import METHODS
from knltrain.input.node_data import NAME
from knltrain.launch.way_between_nodes import way_between_nodes
from knltrain.metrics import read_metrics
from knltrain.network.description import network_to_json
from knltrain.network.layers import AveragePooling, Dense
from knltrain.network.network import Network

from ..hosts import hosts_or_skip, run
from .test_data_pool import pss_bytes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("two_cores")]

NODES = 2
LENET_PARAMETERS = 431_080
SHARED_MEMORY = Path("/dev/shm")
OF_MPI = ("Intel_MPI", "mpich_shm")
GLOO = ("--set", "exchange.between_nodes=gloo")
ONE_EACH = ("--workers", "1")
LEARNS = ("--set", "data.train_images=960", "--set", "train.epochs=1")
LEARNT = 0.85
"""A share of the digits that LeNet tells after 60 steps, 0.92 or more; a tenth is by chance."""


COPIES_APART = """
import sys

if "-c" not in sys.argv and sys.argv[0] != "-c":
    from knltrain.assembly import device_exchange, names
    from knltrain.backends.torch.mirrors import HOST, Mirrors

    made = device_exchange._on_devices

    def told(*given):
        print("a group of devices")
        return made(*given)

    names.build_space = lambda _config: Mirrors(HOST, are_apart=True)
    device_exchange.check_within_nodes = lambda _config, _method: None
    device_exchange._on_devices = told
"""


def again(*values: Any) -> Any:
    """Parameters of a test that go over the ground of others once more."""
    return pytest.param(*values, marks=pytest.mark.long)


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


def by(way: str, method: str, *more: str) -> tuple[str, ...]:
    """Words that choose a way between hosts, a method, and more keys of `exchange`."""
    if way == "ccl" and installed() is None:
        pytest.skip("oneCCL is not installed")
    if way in ("mpi", "gaspi") and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("MPI is not installed")
    chosen = (f"between_nodes={way}", f"method={method}", *more)
    return tuple(word for key in chosen for word in ("--set", f"exchange.{key}"))


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
def started(
    made: Hosts, folder: Path, *arguments: str, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A run on all hosts, which ends with the block."""
    process = launched(made, folder, *arguments, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def done(made: Hosts, folder: Path, *arguments: str) -> str:
    """What a run on all hosts has said that has ended well."""
    with started(made, folder, *arguments) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def refused(made: Hosts, folder: Path, *arguments: str, **options: Any) -> str:
    """What a run on all hosts has said that was not to be."""
    with started(made, folder, *arguments, **options) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    return err


def descendants_of(process: int) -> list[int]:
    """Processes that it has started, and those that these have."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [each for child in map(int, children) for each in (child, *descendants_of(child))]


def part_of(process: int) -> str:
    """The inode of the part of the data that a process maps; empty if it maps none."""
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    return next((line.split()[4] for line in lines if NAME in line), "")


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs/run/result.json").read_text())
    return found


def kept(folder: Path, run: str, name: str) -> dict[str, Any]:
    """The arrays of one file of a run's last checkpoint."""
    steps = (folder / "runs" / run).glob("checkpoint-*")
    last = max(steps, key=lambda each: int(each.name.partition("-")[2]))
    return load_file(last / f"{name}.safetensors")


def assert_all_hosts_were_in(folder: Path) -> None:
    """Each of the four workers has left its log and its place, by host, and its checkpoint."""
    run = folder / "runs/run"
    for rank in range(4):
        assert (run / f"worker-{rank}.log").exists()
        assert kept(folder, "run", f"worker-{rank}")
    ranks = [
        [worker["rank"] for worker in json.loads((run / name).read_text())["workers"]]
        for name in ("placement.json", "placement-2.json")
    ]
    assert ranks == [[0, 1], [2, 3]]


SYNCHRONOUS = ("sync_easgd3", "hierarchical_sgd", "sync_sgd", "layerwise_sgd")


@pytest.mark.parametrize(
    ("way", "method"),
    [
        ("ccl", "hierarchical_easgd"),
        ("mpi", "downpour"),
        ("gaspi", "sync_sgd"),
        again("gaspi", "layerwise_sgd"),
        again("mpi", "layerwise_sgd"),
        *(again(way, each) for way in ("gloo", "ccl") for each in SYNCHRONOUS),
        again("mpi", "hierarchical_easgd"),
        again("mpi", "shmcaffe_h"),
    ],
)
def test_workers_of_two_hosts_train_one_model(
    made: Hosts, folder: Path, way: str, method: str
) -> None:
    out = done(made, folder, *words(*by(way, method), *LEARNS))
    assert f"by {method} with 4 workers on 2 nodes, exchanging by {way}" in out
    assert results(folder)["test_accuracy"] > LEARNT
    assert_all_hosts_were_in(folder)


@pytest.mark.parametrize("method", ["sync_sgd", again("sync_easgd"), again("local_sgd")])
def test_each_host_hears_of_the_losses_of_the_other(made: Hosts, folder: Path, method: str) -> None:
    """Whoever compares what it has heard with its own loss finds another one."""
    chosen = by("gloo", method, "timeout_seconds=4")  # so that heartbeats come twice a second
    longer = ("--set", "train.epochs=3", "--set", "data.train_images=960")
    done(made, folder, *words(*chosen, *ONE_EACH, *longer))
    for rank in range(2):
        found = read_metrics(folder / f"runs/run/metrics-{rank}.jsonl")
        records = [each for each in found if each["kind"] == "train"]
        assert any(abs(each["run_loss"] - each["loss"]) > 1e-9 for each in records), records


OF_ONE_WORKER = ("asgd", "mvasgd")


@pytest.mark.parametrize(
    "method",
    [
        each if each == "mvadownpour" else again(each)
        for each in METHODS
        if each not in OF_ONE_WORKER
    ],
)
def test_every_method_trains_on_two_hosts(made: Hosts, folder: Path, method: str) -> None:
    chosen, facts = MNIST_SETTINGS[method], METHODS[method]
    exchange = [f"{key}={value}" for key, value in chosen.exchange.items()]
    optimizer = {"momentum": 0.9, **facts.optimizer, **chosen.optimizer}
    if optimizer.get("name", "sgd") != "sgd":
        del optimizer["momentum"]
    rate = chosen.learning_rate / 4  # that of the table is for larger batches
    keys = [f"optimizer.{key}={value}".replace("True", "true") for key, value in optimizer.items()]
    keys += [f"learning_rate.base={rate}", "train.epochs=2"]
    size = (*LEARNS, *(word for key in keys for word in ("--set", key)))
    way = way_between_nodes(load_config(folder / "run.toml", [f"exchange.method={method}"]))
    said = done(made, folder, *words(*by(way, method, *exchange), *ONE_EACH, *size))
    assert f"by {method} with 2 workers on 2 nodes" in said
    assert results(folder)["test_accuracy"] > 0.5


@pytest.mark.parametrize("method", ["asgd", again("mvasgd")])
def test_methods_of_one_worker_say_so(made: Hosts, folder: Path, method: str) -> None:
    assert METHODS[method].equation.startswith("one worker: ")
    assert "expected workers = 1" in refused(made, folder, *words(*by("auto", method)))


def test_a_profile_has_the_workers_of_both_hosts(made: Hosts, folder: Path) -> None:
    words = ("profile", "run.toml", *ONE_EACH, "--steps", "5", "--set", "placement.pin=false")
    out = done(made, folder, *words, *by("gloo", "layerwise_sgd", "packing=per_layer"))
    assert "worker  step ms" in out
    found = json.loads((folder / "runs/run-profile/profile.json").read_text())
    assert len(found["ranks"]) == len(found["stages"][0]["by_rank"]) == found["nodes"] == 2
    sent = sum(each["wire_bytes"] for each in found["exchanges"])
    assert LENET_PARAMETERS * 4 <= sent == found["exchange_bytes"]
    assert found["communication"]["exposed_seconds"] > 0
    assert all(each["link_bytes_per_second"] > 0 for each in found["machine"])
    assert "GB/s (link)" in out
    assert all(each["bound_seconds"] > 0 < each["efficiency"] for each in found["exchanges"])


@pytest.mark.long
@pytest.mark.parametrize("written", ["float32", "int8"])
def test_a_profile_has_shmcaffe_s_times_across_hosts(
    made: Hosts, folder: Path, written: str
) -> None:
    words = ("profile", "run.toml", *ONE_EACH, "--steps", "9", "--set", "placement.pin=false")
    out = done(made, folder, *words, *by("mpi", "seasgd", f"wire_format={written}"))
    found = json.loads((folder / "runs/run-profile/profile.json").read_text())
    (row,) = found["exchanges"]
    assert row["wire_bytes"] == found["exchange_bytes"]
    assert row["issued_seconds"] >= row["exposed_seconds"] > 0
    times = found["communication"]["shmcaffe"]
    assert all(times[name] > 0 for name in ("tcomp", "trgw", "tulw", "twwi", "tugw"))
    assert "ShmCaffe's times of an iteration, ms: Tcomp" in out


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "method"),
    [
        ("mpi", "caffegpi"),
        ("gloo", "sync_easgd3"),
        ("ccl", "hierarchical_easgd"),
        ("mpi", "seasgd"),
    ],
)
def test_three_hosts_train_over_links_with_a_latency(folder: Path, way: str, method: str) -> None:
    size = (*LEARNS, "--set", "train.batch=48", "--set", "train.epochs=2")
    with hosts_or_skip(3, gbits=25.0, latency_us=200.0) as three:
        done(three, folder, *words(*by(way, method), *ONE_EACH, *size))
    assert results(folder)["test_accuracy"] > LEARNT


@pytest.mark.parametrize(
    ("way", "others_by"),
    [("gloo", "TCP"), again("mpi", "MPI")],
)
def test_data_in_the_memories_of_both_hosts_train_to_the_same_bits(
    made: Hosts, folder: Path, way: str, others_by: str
) -> None:
    given = words(*by(way, "sync_sgd"), *ONE_EACH, *LEARNS)
    done(made, folder, *given, "--set", "name=whole")
    out = done(made, folder, *given, "--set", "data.memory=distributed")
    assert "data: node 0 of 2 holds 659 of 1,319 images" in out
    assert f"other nodes' are read by {others_by}" in out
    held = [
        json.loads((folder / "runs/run" / name).read_text())
        for name in ("data.json", "data-1.json")
    ]
    assert [each["images"] for each in held] == [659, 660]
    assert [each["others_by"] for each in held] == [others_by] * 2
    whole, parted = (kept(folder, run, "center") for run in ("whole", "run"))
    for name, values in whole.items():
        np.testing.assert_array_equal(parted[name], values)


@pytest.mark.long
def test_a_node_takes_the_memory_of_its_part_alone(made: Hosts, folder: Path) -> None:
    """By the shares of all pages that the kernel counts for each process (PSS)."""
    few, many = (memory_of_nodes(made, folder, images) for images in (2_000, 42_000))
    half = 40_000 * (32 * 32 * 3 + 8) / 2
    assert len(few) == len(many) == NODES
    for before, after in zip(few, many, strict=True):
        assert after["data"] - before["data"] == pytest.approx(half, rel=0.05)
        assert after["all"] - before["all"] <= 1.05 * half


def memory_of_nodes(made: Hosts, folder: Path, images: int) -> list[dict[str, int]]:
    """PSS of each node's processes in a run that has read its whole part: all, and of the part."""
    rows = np.random.default_rng(0).integers(0, 256, (images, 32, 32, 3), np.uint8)
    np.save(folder / "pictures.npy", rows)
    np.save(folder / "labels.npy", np.arange(images) % 10)
    layers = (AveragePooling("pool", 8, 8), Dense("fc", 10))
    (folder / "small.json").write_text(network_to_json(Network("small", (32, 32, 3), layers)))
    settings = (
        *("data.name=numpy", f"data.root={folder}", "data.memory=distributed"),
        *('data.train=["pictures.npy", "labels.npy"]', "data.test_share=0.01"),
        *(f"data.train_images={images * 99 // 100}", f"data.test_images={images // 100}"),
        *("data.shift_pixels=0", f"network.name={folder / 'small.json'}", "train.batch=200"),
        *("train.epochs=100000", f"checkpoint.every_steps={images // 200}"),
        *("evaluation.every_steps=99999", f"name=with-{images}"),
    )
    more = (word for setting in settings for word in ("--set", setting))
    with started(made, folder, *words(*by("gloo", "sync_sgd"), *ONE_EACH, *more)) as process:
        deadline = time.monotonic() + 240
        while not (folder / f"runs/with-{images}/checkpoint-{images // 200}").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        found: dict[str, dict[str, int]] = {}
        for each in descendants_of(process.pid):
            part, pss = part_of(each), pss_bytes(each)
            node = found.setdefault(part, {"all": 0, "data": 0})
            for name in node:
                node[name] += pss[name]
    return [node for part, node in found.items() if part]


@pytest.mark.long
def test_a_run_goes_on_with_fewer_hosts_to_the_same_bits(made: Hosts, folder: Path) -> None:
    """The one that is left reads the part of the other, too."""
    alike = ("--set", "data.memory=distributed", "--set", "backend.threads=1")
    given = words(*by("gloo", "sync_sgd"), *ONE_EACH, *LEARNS, *alike)
    done(made, folder, *given)
    shutil.copytree(folder / "runs/run", folder / "runs/fewer")
    more = ("--set", "train.epochs=2")
    done(made, folder, "train", "--resume", "runs/run", *more)
    resumed = ("train", "--resume", "runs/fewer", *more, "--set", "nodes=1", "--set", "workers=2")
    subprocess.run([sys.executable, "-m", "knltrain", *resumed], cwd=folder, check=True)
    two, one = (kept(folder, run, "center") for run in ("run", "fewer"))
    for name, values in two.items():
        np.testing.assert_array_equal(one[name], values)


MODULE = """
import os
from torch import nn

def build():
    flat = nn.Flatten()
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), flat, nn.Linear(6 * 26 * 26, 10))

def other():
    filters = 6 + int(os.environ["KNLTRAIN_TASK_RANK"])
    return nn.Sequential(nn.Conv2d(1, filters, 28), nn.Flatten(), nn.Linear(filters, 10))
"""


@pytest.mark.long
def test_hosts_import_the_same_module_or_are_refused(made: Hosts, folder: Path) -> None:
    (folder / "own.py").write_text(MODULE)
    of = [("--set", f"network.module=own.py:{function}") for function in ("build", "other")]
    more = (*by("gloo", "sync_sgd"), *ONE_EACH, "--set", "train.epochs=1")
    out = done(made, folder, *words(*more, *of[0]))
    assert out.count("importing own.py:build") == 1
    assert "training Sequential on digits by sync_sgd with 2 workers on 2 nodes" in out
    assert "network.name (digest) = " in refused(made, folder, *words(*more, *of[1]))


BYTES = {"float32": 4, "bfloat16": 2, "int8": 1.016, "float4": 0.516, "top_k": 0.08}
"""That two hosts send each other for a value in an exchange; of top_k, for a hundredth of all."""


@pytest.mark.parametrize(
    ("way", "method", "written"),
    [
        ("gloo", "sync_sgd", "top_k"),
        again("gloo", "hierarchical_easgd", "bfloat16"),
        again("gloo", "sync_easgd3", "int8"),
        again("mpi", "caffegpi", "float32"),
        again("gloo", "hierarchical_easgd", "float32"),
        again("gloo", "hierarchical_easgd", "top_k"),
        again("gloo", "sync_easgd", "bfloat16"),
        again("gloo", "sync_easgd3", "top_k"),
        again("gloo", "sync_sgd", "int8"),
        again("gloo", "sync_sgd", "float32"),
    ],
)
def test_run_trains_a_model_and_goes_on_from_any_checkpoint_to_the_same_bits(
    made: Hosts, folder: Path, way: str, method: str, written: str
) -> None:
    """Also by what is sent in fewer bytes: a node keeps what was not sent yet in the checkpoint."""
    chosen = (*by(way, method, f"wire_format={written}"), "--set", "checkpoint.every_epochs=0.5")
    out = done(made, folder, *words(*chosen, *LEARNS))
    assert f"by {method} with 4 workers on 2 nodes, exchanging by {way} in {written};" in out
    found = results(folder)
    assert found["test_accuracy"] > LEARNT
    assert found["wire_format"] == written
    if method != "caffegpi":
        assert found["exchange_bytes"] / LENET_PARAMETERS == pytest.approx(BYTES[written], 0.01)
    assert_all_hosts_were_in(folder)
    assert_goes_on_to_the_same_bits(made, folder)


@pytest.mark.parametrize(
    "chosen",
    [
        ("gloo", "diloco", "communication_period=3", "wire_format=top_k", "wire_top_share=0.05"),
        again(("mpi", "caffegpi")),
        again(("mpi", "original_easgd", "wire_format=int8")),
        again(("gloo", "diloco", "communication_period=3")),
        again(
            (
                "gloo",
                "hierarchical_sgd",
                "group_period=2",
                "communication_period=4",
                "wire_format=int8",
            )
        ),
        again(
            (
                "gloo",
                "streaming_diloco",
                "communication_period=4",
                "fragments=2",
                "delay_steps=1",
                "wire_format=float4",
            )
        ),
    ],
    ids=" ".join,
)
def test_run_of_few_steps_goes_on_to_the_same_bits(
    made: Hosts, folder: Path, chosen: tuple[str, ...]
) -> None:
    """With the outer momentum of DiLoCo, what was not sent yet, or the velocity at rank 0 alone."""
    done(made, folder, *words(*by(*chosen), "--set", "train.steps=12"))
    assert_goes_on_to_the_same_bits(made, folder)


def assert_goes_on_to_the_same_bits(made: Hosts, folder: Path) -> None:
    """From the checkpoint before the last, where nothing came after it."""
    cut = folder / "runs/cut"
    shutil.copytree(folder / "runs/run", cut)
    (cut / "result.json").unlink()
    *_, last = sorted(cut.glob("checkpoint-*"), key=lambda each: int(each.name.partition("-")[2]))
    shutil.rmtree(last)
    done(made, folder, "train", "--resume", "runs/cut")
    for name in ("center", *(f"worker-{rank}" for rank in range(4))):
        whole, resumed = (kept(folder, run, name) for run in ("run", "cut"))
        assert whole.keys() == resumed.keys()
        for key in whole:
            assert np.array_equal(whole[key], resumed[key]), (name, key)


@pytest.mark.long
def test_several_groups_of_a_host_each_come_to_the_center(made: Hosts, folder: Path) -> None:
    """Four workers of a host in two groups, whose roots share a segment and the host's shard."""
    chosen = by("mpi", "shmcaffe_h", "group_size=2", "termination=average")
    done(made, folder, *words(*chosen, "--workers", "4", *LEARNS))
    found = results(folder)
    assert found["test_accuracy"] > LEARNT
    assert found["exchange_bytes"] == pytest.approx(4 * LENET_PARAMETERS, 0.001)
    steps = found["worker_steps"]
    assert steps[0::2] == steps[1::2]
    assert sum(steps) // 8 == found["steps"]
    locals_ = [kept(folder, "run", f"worker-{rank}")["local"] for rank in range(8)]
    for rank in range(0, 8, 2):
        assert np.array_equal(locals_[rank], locals_[rank + 1])
    assert not any(np.array_equal(locals_[0], other) for other in locals_[2::2])
    assert_goes_on_from_its_end(made, folder)


@pytest.mark.long
@pytest.mark.parametrize(("way", "method"), [("gloo", "hierarchical_sgd"), ("mpi", "shmcaffe_h")])
def test_groups_on_devices_train_as_those_of_the_host(
    made: Hosts, folder: Path, way: str, method: str
) -> None:
    """All but the devices is real: copies apart of the host's vectors are in their place."""
    (folder / "sitecustomize.py").write_text(COPIES_APART)
    chosen = words(*by(way, method, "group_size=2", "communication_period=4"), *LEARNS)
    chosen += ["--set", "backend.name=torch", "--set", "backend.implementation=reference"]
    emulated = {"PYTHONPATH": f"{folder}:{Path(__file__).parents[3]}"}
    for name in ("segment", "device"):
        more = ("--set", f"exchange.within_nodes={name}", "--set", f"name={name}")
        with started(made, folder, *chosen, *more, variables=emulated) as process:
            _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        result = json.loads((folder / "runs" / name / "result.json").read_text())
        assert result["test_accuracy"] > LEARNT
        log = (folder / "runs" / name / "worker-3.log").read_text()
        assert log.count("a group of devices") == (name == "device")
    if method == "hierarchical_sgd":  # the other one's groups do not wait for each other
        expected, found = (
            kept(folder, name, "worker-3")["local"] for name in ("segment", "device")
        )
        assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(expected)


@pytest.mark.long
@pytest.mark.parametrize(
    "method", ["seasgd", "shmcaffe_h", "adownpour", "parameter_server", "caffe_mpi"]
)
def test_workers_that_come_alone_train_a_model_and_go_on_from_their_checkpoint(
    made: Hosts, folder: Path, method: str
) -> None:
    out = done(made, folder, *words(*by("mpi", method), *LEARNS))
    assert f"by {method} with 4 workers on 2 nodes, exchanging by mpi" in out
    assert results(folder)["test_accuracy"] > LEARNT
    assert_all_hosts_were_in(folder)
    assert_goes_on_from_its_end(made, folder)


@pytest.mark.parametrize(
    ("method", "written"),
    [
        ("seasgd", "int8"),
        again("shmcaffe_h", "bfloat16"),
        again("async_sgd", "int8"),
        again("easgd", "float4"),
        again("easgd", "top_k"),
        again("original_easgd", "bfloat16"),
    ],
)
def test_workers_that_come_alone_send_fewer_bytes_to_other_hosts(
    made: Hosts, folder: Path, method: str, written: str
) -> None:
    """Half of the center lies there. It is read as bfloat16, once more by who follows it."""
    chosen = by("mpi", method, f"wire_format={written}")
    out = done(made, folder, *words(*chosen, *LEARNS))
    assert f"exchanging by mpi in {written};" in out
    found = results(folder)
    assert found["test_accuracy"] > LEARNT
    read = BYTES["bfloat16"] * (2 if method == "async_sgd" else 1)
    expected = (read + BYTES[written]) / 2
    assert found["exchange_bytes"] / LENET_PARAMETERS == pytest.approx(expected, 0.01)
    worker = kept(folder, "run", "worker-3")
    assert ("exchange.residual" in worker) == ((method, written) == ("async_sgd", "int8"))
    assert_all_hosts_were_in(folder)
    assert_goes_on_from_its_end(made, folder)


def assert_goes_on_from_its_end(made: Hosts, folder: Path) -> None:
    """By few steps more, after which the model is about as good."""
    before = results(folder)
    steps = before["steps"] + 1
    done(made, folder, "train", "--resume", "runs/run", "--set", f"train.steps={steps}")
    after = results(folder)
    assert after["steps"] >= steps
    assert abs(after["test_accuracy"] - before["test_accuracy"]) < 0.05


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
    ("way", "method", "variable", "name"),
    [
        ("ccl", "sync_easgd", "FI_TCP_IFACE", "lo"),
        ("gloo", "sync_easgd", "GLOO_SOCKET_IFNAME", "lo"),
        ("mpi", "seasgd", "FI_TCP_IFACE", "lo"),
        again("mpi", "sync_easgd", "FI_TCP_IFACE", "lo"),
        again("ccl", "sync_easgd", "FI_TCP_IFACE", "ib7"),
        again("gloo", "sync_easgd", "GLOO_SOCKET_IFNAME", "ib7"),
        again("mpi", "seasgd", "FI_TCP_IFACE", "ib7"),
    ],
)
def test_interface_that_leads_to_no_other_host_is_refused(
    made: Hosts, folder: Path, way: str, method: str, variable: str, name: str
) -> None:
    told = {variable: name}
    err = refused(made, folder, *words(*by(way, method), *ONE_EACH), variables=told)
    assert re.search(rf"error: .*{variable}={name}: '{name}' on ", err), err
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
    script = folder / "way"
    script.write_text(SMALL_SHARED_MEMORY.format(small=made.names[1]))
    script.chmod(0o700)
    chosen = words(*by(way, method), *ONE_EACH)
    err = refused(made, folder, *chosen, way=f"{script} {{host}}")
    assert re.search(r"error: .*/dev/shm", err), err


def test_number_of_computers_that_is_not_there_is_refused(made: Hosts, folder: Path) -> None:
    unfit = ("--set", "nodes=3", "--set", "train.batch=24")
    with started(made, folder, *words(*GLOO, *unfit)) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "nodes = 3, but this process is started on 2" in err


@contextmanager
def under_way(
    made: Hosts, folder: Path, way: str, method: str, *more: str
) -> Iterator[subprocess.Popen[str]]:
    """A run that does not end by itself, some steps after its start."""
    endless = ("--set", "train.steps=100000000", "--set", "evaluation.every_epochs=0")
    with started(made, folder, *words(*by(way, method), *endless, *more)) as process:
        metrics, deadline = folder / "runs/run/metrics-0.jsonl", time.monotonic() + 120
        while not (metrics.exists() and metrics.read_text().count("\n") > 3):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process


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
        pytest.param(
            "mpi", "seasgd", 2, id="who has a share of the center", marks=pytest.mark.long
        ),
        again("mpi", "caffegpi", 3),
        pytest.param("mpi", "shmcaffe_h", 3, id="another worker of a group"),
        again("mpi", "sync_easgd", 3),
        again("mpi", "seasgd", 3),
        again("mpi", "shmcaffe_h", 2),
    ],
)
def test_worker_that_is_killed_ends_the_run_on_all_hosts(
    made: Hosts, folder: Path, way: str, method: str, rank: int
) -> None:
    with under_way(made, folder, way, method) as process:
        _kill_worker(folder, rank)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"worker {rank} failed: it was killed by SIGKILL" in err
    gone = rf"error: task 1 \(\S+\) is gone: worker {rank} failed"
    assert re.search(gone, err), err


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method", "workers"),
    [
        ("mpi", "seasgd", 2),
        again("gloo", "sync_easgd", 1),
        again("ccl", "sync_easgd", 2),
        again("gloo", "hierarchical_easgd", 2),
        again("mpi", "caffegpi", 1),
        again("mpi", "seasgd", 1),
        again("mpi", "shmcaffe_h", 2),
    ],
)
def test_worker_that_is_stopped_is_named_on_all_hosts(
    made: Hosts, folder: Path, way: str, method: str, workers: int
) -> None:
    """Not those that wait for it, and no later than the time limit for them."""
    rank = 2 * workers - 1
    more = ("--workers", str(workers), "--set", "exchange.timeout_seconds=4")
    with under_way(made, folder, way, method, *more) as process:
        (worker,) = _processes(folder, f"KNLTRAIN_RANK={rank}\0")
        os.kill(worker, signal.SIGSTOP)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    host = socket.gethostname()
    named = rf"worker {rank} \(process {worker} on host {host}\) is stopped \(state T\)"
    assert re.search(rf": error: {named}", err), err
    assert re.search(rf"error: task 1 \(\S+\) is gone: {named}", err), err


@pytest.mark.long
@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method", "number"),
    [("mpi", "seasgd", 1), ("mpi", "seasgd", 0), ("gloo", "sync_easgd", 1)],
)
def test_host_that_stands_still_as_a_whole_is_named_by_the_others(
    made: Hosts, folder: Path, way: str, method: str, number: int
) -> None:
    """Also where its workers would be missed at the next meeting only."""
    limit = ("--set", "exchange.timeout_seconds=4")
    with under_way(made, folder, way, method, *limit) as process:
        (task,) = _processes(folder, f"KNLTRAIN_TASK_RANK={number}", absent="knltrain.launch")
        workers = [_processes(folder, f"KNLTRAIN_RANK={2 * number + n}\0")[0] for n in range(2)]
        for each in (task, *workers):
            os.kill(each, signal.SIGSTOP)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    named = rf"error: task {number} \(\S+\) is gone: its process {task} is stopped \(state T\)"
    assert re.search(named, err), err


@pytest.mark.long
@pytest.mark.usefixtures("nothing_stays")
def test_run_that_is_suspended_on_all_hosts_goes_on(made: Hosts, folder: Path) -> None:
    """One host goes on after the other, as a scheduler has them."""
    limit = ("--set", "exchange.timeout_seconds=4")
    with under_way(made, folder, "mpi", "seasgd", *limit) as process:
        of_hosts = [_processes(folder, f"KNLTRAIN_TASK_RANK={n}") for n in range(NODES)]
        for each in (each for host in of_hosts for each in host):
            os.kill(each, signal.SIGSTOP)
        time.sleep(6)
        metrics = folder / "runs/run/metrics-0.jsonl"
        before = metrics.read_text()
        for host in of_hosts:
            for each in host:
                os.kill(each, signal.SIGCONT)
            time.sleep(1)
        deadline = time.monotonic() + 60
        while metrics.read_text() == before:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(6)
        assert process.poll() is None, process.communicate()


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method"),
    [("mpi", "seasgd"), again("gloo", "sync_easgd"), again("mpi", "sync_easgd")],
)
def test_process_of_a_host_that_is_killed_ends_the_run_on_the_others(
    made: Hosts, folder: Path, way: str, method: str
) -> None:
    with under_way(made, folder, way, method) as process:
        (task,) = _processes(folder, "KNLTRAIN_TASK_RANK=1", absent="knltrain.launch")
        os.kill(task, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert re.search(r"error: task 1 \(\S+\) is gone", err), err


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method", "number"),
    [
        ("mpi", "seasgd", 0),
        again("gloo", "sync_easgd", 1),
        again("gloo", "sync_easgd", 0),
        again("mpi", "sync_easgd", 0),
        again("mpi", "sync_easgd", 1),
        again("mpi", "seasgd", 1),
    ],
)
def test_host_that_is_cut_off_ends_the_run_on_the_others(
    folder: Path, way: str, method: str, number: int
) -> None:
    """Each host tells that the other one is gone; by MPI calls for it would not return."""
    with hosts_or_skip(NODES) as made, under_way(made, folder, way, method) as process:
        made.cut_off(number)
        _, err = process.communicate(timeout=90)
        assert process.returncode != 0
        for told in (r"error: task 1 \(\S+\) is gone", r": error: task 0 \(\S+\) is gone"):
            assert re.search(told, err), err


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method", "number"),
    [
        ("mpi", "seasgd", signal.SIGINT),
        again("gloo", "sync_easgd", signal.SIGHUP),
        again("gloo", "sync_easgd", signal.SIGINT),
        again("mpi", "sync_easgd", signal.SIGINT),
    ],
)
def test_signal_ends_the_run_on_all_hosts(
    made: Hosts, folder: Path, way: str, method: str, number: signal.Signals
) -> None:
    with under_way(made, folder, way, method) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert f"error: stopped by {number.name}" in err


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method", "who"),
    [
        ("gloo", "sync_easgd", "a task"),
        again("mpi", "seasgd", "the launcher"),
        again("ccl", "hierarchical_easgd", "the launcher"),
        again("gloo", "local_sgd", "the launcher"),
        again("mpi", "caffegpi", "a task"),
        again("mpi", "shmcaffe_h", "a task"),
    ],
)
def test_run_on_all_hosts_stops_with_a_checkpoint_whoever_is_asked(
    made: Hosts, folder: Path, way: str, method: str, who: str
) -> None:
    with under_way(made, folder, way, method) as process:
        (task,) = _processes(folder, "KNLTRAIN_TASK_RANK=1", absent="knltrain.launch")
        asked = process.pid if who == "the launcher" else task
        os.kill(asked, signal.SIGUSR2)
        _await_checkpoint(process, folder)
        os.kill(asked, signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 75, err
    said = "error: the run was stopped by SIGTERM at step "
    assert err.count(said) == NODES, err
    steps = int(err.partition(said)[2].split()[0]) + 4
    assert_all_hosts_were_in(folder)
    done(made, folder, "train", "--resume", "runs/run", "--set", f"train.steps={steps}")
    assert results(folder)["steps"] == steps


def _await_checkpoint(process: subprocess.Popen[str], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not any((folder / "runs/run").glob("checkpoint-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("way", "method"),
    [("mpi", "seasgd"), again("gloo", "sync_easgd"), again("mpi", "sync_easgd")],
)
def test_launcher_that_is_killed_leaves_nothing(
    made: Hosts, folder: Path, way: str, method: str
) -> None:
    with under_way(made, folder, way, method) as process:
        process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while _processes(folder, "KNLTRAIN_TASK_COUNT=2"):
            assert time.monotonic() < deadline
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
