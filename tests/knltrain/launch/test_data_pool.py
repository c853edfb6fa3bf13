"""Runs whose batches a data pool makes: the same to the bit, and with a clear end of each kind."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from affinity import allowed_cpus, pinned_command
from knltrain.input.node_data import NAME
from knltrain.metrics import read_metrics
from knltrain.network.description import network_to_json
from knltrain.network.layers import AveragePooling, Dense
from knltrain.network.network import Network

ROOT = Path(__file__).parents[3]
LIMIT_SECONDS = 240.0

RUN = """
workers = 2
[network]
name = "lenet"
[data]
name = "digits"
train_images = 96
shift_pixels = 1
[train]
steps = 7
batch = 16
iter_size = 2
[learning_rate]
base = 0.01
[backend]
threads = 1
[placement]
pin = false
[checkpoint]
every_steps = 4
keep = 100
[evaluation]
every_steps = 4
"""
"""Three steps an epoch, so that the first checkpoint is in the middle of the second one."""

AHEAD = "placement.data_cores=1"

HINDRANCE = """
import os
if "KNLTRAIN_DATA_POOL" in os.environ:
    from knltrain.data.augmentation.augmenting import Augmenting
    from knltrain.errors import BrokenPicture
    import time
    write, seen = Augmenting.write, []
    def hindered(self, source, rows, draws, out):
        seen.append(rows)
        write(self, source, rows, draws, out)
        {hindrance}
    Augmenting.write = hindered
"""


def started(
    folder: Path, *arguments: str, cpu: int | None = None, **variables: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "knltrain", "train", *arguments]
    return subprocess.Popen(
        command if cpu is None else pinned_command(command, (cpu,)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trained(folder: Path, *arguments: str) -> str:
    with started(folder, *arguments) as process:
        out, err = process.communicate(timeout=LIMIT_SECONDS)
        assert (process.returncode, err) == (0, "")
        return out


def with_settings(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path


def hinder(folder: Path, hindrance: str) -> None:
    """Let each call of the pool's preprocessing end with this statement."""
    (folder / "sitecustomize.py").write_text(HINDRANCE.format(hindrance=hindrance))


def processes_of(parent: int, module: str) -> list[int]:
    """The children of a process that run this module."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and words[-2:-1] == [module.encode()]:
            found.append(int(process.name))
    return found


@contextmanager
def long_run(folder: Path, *settings: str) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A run of many steps after its first checkpoint: its process, its pool's, and its folder."""
    settings = (AHEAD, "train.steps=100000", "evaluation.every_steps=99999", *settings)
    with started(folder, "run.toml", *with_settings(*settings)) as process:
        run = folder / "runs/run"
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (run / "checkpoint-4").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (pool,) = processes_of(process.pid, "knltrain.launch.data_pool")
        try:
            yield process, pool, run
        finally:
            process.kill()
            process.communicate()


def losses(run: Path) -> dict[int, float]:
    return {
        each["step"]: each["loss"]
        for each in read_metrics(run / "metrics-0.jsonl")
        if each["kind"] == "test"
    }


def model(run: Path) -> dict[str, bytes]:
    found = load_file(run / "checkpoint-7/center.safetensors")
    return {name: values.tobytes() for name, values in found.items()}


@pytest.mark.slow
def test_batches_made_ahead_are_the_same_to_the_bit_and_so_are_those_of_a_resumed_run(
    folder: Path,
) -> None:
    trained(folder, "run.toml")
    told = trained(folder, "run.toml", *with_settings(AHEAD, "data.batches_ahead=2"))
    assert "data pool: 1 core, 2 batches ahead of each of 2 workers" in told
    alone, ahead = folder / "runs/run", folder / "runs/run-2"
    assert model(alone) == model(ahead)
    assert losses(alone) == losses(ahead)
    found = json.loads((ahead / "placement.json").read_text())
    assert found["data_pool"]["threads"] == 1
    assert 0 < json.loads((ahead / "result.json").read_text())["data_share"] < 1

    (ahead / "result.json").unlink()
    (folder / "gone").mkdir()
    (ahead / "checkpoint-7").rename(folder / "gone/checkpoint-7")
    trained(folder, "--resume", str(ahead), *with_settings("placement.data_cores=2"))
    assert model(alone) == model(ahead)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_each_task_of_a_computer_has_a_pool_and_all_have_one_copy(folder: Path) -> None:
    trained(folder, "run.toml")
    variables = {
        "KNLTRAIN_JOB_SECRET": secrets.token_hex(32),
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": "0",
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "localhost",
    }
    with ExitStack() as ends:
        tasks = [
            ends.enter_context(
                started(
                    folder,
                    "run.toml",
                    *with_settings("placement.data_cores=2"),
                    cpu=cpu,
                    **variables,
                    SLURM_PROCID=str(rank),
                    SLURM_LOCALID=str(rank),
                )
            )
            for rank, cpu in enumerate(allowed_cpus()[:2])
        ]
        ended = [(task.communicate(timeout=LIMIT_SECONDS)[1], task.returncode) for task in tasks]
    assert ended == [("", 0), ("", 0)]
    assert model(folder / "runs/run") == model(folder / "runs/run-2")
    for rank in range(2):
        assert (folder / f"runs/run-2/data-pool-{rank}.log").exists()


@pytest.mark.slow
def test_a_broken_picture_ends_the_run_with_its_words(folder: Path) -> None:
    hinder(folder, 'if len(seen) == 8: raise BrokenPicture("cat.jpg: it is cut short")')
    with started(folder, "run.toml", *with_settings(AHEAD, "workers=1")) as process:
        _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 2
    assert "the data pool failed: step 3: cat.jpg: it is cut short" in err
    log = folder / "runs/run/data-pool-0.log"
    assert f"log: {log}" in err.replace("log: runs", f"log: {folder}/runs")
    assert "BrokenPicture" in log.read_text()


@pytest.mark.slow
def test_a_mapped_file_that_is_truncated_during_a_run_is_named(folder: Path) -> None:
    """Reading beyond its end kills the pool, which reads the training pictures."""
    file = folder / "pictures.npy"
    np.save(file, np.random.default_rng(0).integers(0, 256, (2_000, 28, 28), np.uint8))
    np.save(folder / "labels.npy", np.arange(2_000) % 10)
    files = 'data.train=["pictures.npy", "labels.npy"]'
    settings = ("data.name=numpy", f"data.root={folder}", files, "data.test_share=0.1")
    with long_run(folder, *settings) as (process, _, _):
        os.truncate(file, 10_000)
        _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1
    assert "the data pool failed: it was killed by SIGBUS" in err
    assert f"{file} has 10,000 bytes, and had 1,568,128 when it was mapped" in " ".join(err.split())


@pytest.mark.slow
def test_a_pool_that_is_killed_is_named(folder: Path) -> None:
    with long_run(folder) as (process, pool, _):
        os.kill(pool, signal.SIGKILL)
        _, err = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 1
    assert "the data pool failed: it was killed by SIGKILL" in err


@pytest.mark.slow
def test_a_pool_that_is_stopped_ends_the_run(folder: Path) -> None:
    with long_run(folder, "exchange.timeout_seconds=1.0") as (process, pool, _):
        os.kill(pool, signal.SIGSTOP)
        _, err = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode in (1, 2)
    assert "the data pool" in err and "stopped (state T)" in err


@pytest.mark.slow
def test_workers_that_wait_for_data_end_at_once_when_the_run_is_stopped(folder: Path) -> None:
    hinder(folder, "if len(seen) > 40: time.sleep(1e6)")
    with long_run(folder, "workers=1") as (process, _, run):
        time.sleep(2)  # until the ring is empty
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, err = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 130
        assert time.monotonic() - begun < 20
    assert "stopped by SIGINT" in err
    assert "stopped by SIGINT" in (run / "worker-0.log").read_text()


@pytest.mark.slow
def test_nothing_is_left_behind_when_the_parent_is_killed(folder: Path) -> None:
    with long_run(folder) as (process, pool, _):
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 20
        while Path(f"/proc/{pool}/stat").exists() and time.monotonic() < deadline:
            if Path(f"/proc/{pool}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                break
            time.sleep(0.05)
        assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "data_cores",
    [pytest.param(0, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.slow)],
)
def test_a_node_has_one_copy_of_the_data(folder: Path, data_cores: int) -> None:
    """By the shares of all pages that the kernel counts for each process (PSS)."""
    few, many = (measured(folder, images, data_cores) for images in (1_000, 40_000))
    copies = 39_000 * (32 * 32 * 3 + 8)
    assert many["data"] - few["data"] == pytest.approx(copies, rel=0.05)
    # With the allocators' differences from run to run; a second copy would make it 2.
    assert many["all"] - few["all"] <= 1.4 * copies
    # Of what it has read, the parent keeps no more than the allocator does.
    assert many["parent"] - few["parent"] <= 0.25 * copies


def measured(folder: Path, images: int, data_cores: int) -> dict[str, int]:
    """PSS of a run's workers and pool, all of it and that of the copy, and PSS of their parent.

    By then an epoch has touched all training pictures; the network is one that takes no time.
    """
    layers = (AveragePooling("pool", 8, 8), Dense("fc", 10))
    (folder / "small.json").write_text(network_to_json(Network("small", (32, 32, 3), layers)))
    settings = (
        "data.name=synthetic",
        f"data.train_images={images}",
        "data.test_images=100",
        f"network.name={folder / 'small.json'}",
        f"placement.data_cores={data_cores}",
        f"name=with-{images}",
        "data.shift_pixels=0",
        "train.batch=200",
        "train.iter_size=1",
        "train.steps=100000",
        f"checkpoint.every_steps={images // 200}",
        "evaluation.every_steps=99999",
    )
    with started(folder, "run.toml", *with_settings(*settings)) as process:
        try:
            deadline = time.monotonic() + LIMIT_SECONDS
            while not (folder / f"runs/with-{images}/checkpoint-{images // 200}").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            workers = processes_of(process.pid, "knltrain.launch.entry")
            pools = processes_of(process.pid, "knltrain.launch.data_pool")
            assert (len(workers), len(pools)) == (2, data_cores)
            parent, *found = (pss_bytes(each) for each in (process.pid, *workers, *pools))
        finally:
            process.kill()
            process.communicate()
    assert parent["data"] == 0  # it does not keep the copy mapped
    sums = {name: sum(each[name] for each in found) for name in ("all", "data")}
    return {**sums, "parent": parent["all"]}


def pss_bytes(process: int) -> dict[str, int]:
    """Of a process: all, and that of the copy of the data, as far as it has touched it."""
    found, counts = {"all": 0, "data": 0}, False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            counts = NAME in line
        elif words[0] == "Pss:":
            found["all"] += int(words[1]) * 1024
            found["data"] += int(words[1]) * 1024 * counts
    return found
