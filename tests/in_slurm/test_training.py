"""Runs under a real Slurm: a task for each node or for each worker, and the scripts to submit."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from affinity import physical_cores, read_allowed, read_topology
from knltrain.communication.oneccl.library import installed

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"

pytestmark = pytest.mark.slow

CONFIG = """
workers = 1
[network]
name = "lenet"
[data]
name = "digits"
train_images = 960
[train]
epochs = 6
batch = 32
[learning_rate]
base = 0.02
[placement]
pin = false
"""
KNLTRAIN = """#!/bin/sh
echo "task $SLURM_PROCID sees GPUs: ${{CUDA_VISIBLE_DEVICES-none}}, cpus: $(nproc)"
exec {} "$@"
"""
"""The command, told what Slurm tells a task of its GPUs."""

GLOO = "--set exchange.between_nodes=gloo"
OUT = "job.out"
SECONDS = 240.0
REST_SECONDS = 5.0


class Slurm(Protocol):
    folder: Path

    def __call__(self, *words: str, **environment: str) -> Any: ...
    def state_of(self, job: str) -> str: ...
    def log_of(self, job: str) -> str: ...


Start = Callable[..., str]
Submit = Callable[..., tuple[str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def start(slurm_cluster: Slurm, folder: Path) -> Start:
    """Submits a script as a user does, in a folder of runs; returns the number of the job."""
    if len(physical_cores(read_topology(), read_allowed().cpus)) < 2:
        pytest.skip("two tasks with a core each need two cores")

    def started(script: str, *words: str, options: str = "") -> str:
        # All nodes of these tests are this machine, whose names of theirs nobody can resolve.
        command = folder / "knltrain"
        command.write_text(KNLTRAIN.format(Path(sys.executable).with_name("knltrain")))
        command.chmod(0o755)
        environment = {
            "MASTER_ADDR": "127.0.0.1",
            "KNLTRAIN": str(command),
            "PYTHONPATH": str(ROOT),
        }
        partition = ("--partition=two", f"--chdir={folder}", f"--output={folder / OUT}")
        done = slurm_cluster(
            "sbatch",
            "--parsable",
            *partition,
            *options.split(),
            str(SCRIPTS / script),
            *words,
            **environment,
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout.strip())

    return started


@pytest.fixture
def submit(slurm_cluster: Slurm, folder: Path, start: Start) -> Submit:
    """The same until the job has ended; returns its state and its output."""

    def submitted(script: str, *words: str, options: str = "") -> tuple[str, str]:
        return ended(slurm_cluster, folder, start(script, *words, options=options))

    return submitted


def ended(slurm: Slurm, folder: Path, job: str) -> tuple[str, str]:
    """The state in which a job has ended, and its output."""
    state = wait_for(slurm, job)
    told = said(folder)
    if state != "COMPLETED":
        told += slurm("scontrol", "show", "job", job).stdout
        told += slurm.log_of(job)
    return state, told


def said(folder: Path) -> str:
    """What a job has written up to now."""
    return (folder / OUT).read_text() if (folder / OUT).exists() else ""


def wait_for(slurm: Slurm, job: str) -> str:
    """Return the state in which a job has ended.

    One that is back in the queue would wait there for two minutes. It is helped on, but not at
    once: Slurm would take the end of the first try's script, when told of it late, for the next
    one's.
    """
    deadline = time.monotonic() + SECONDS
    waiting = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"}
    queued_seconds: float | None = None
    while (state := set(slurm.state_of(job).split())) & waiting:
        now = time.monotonic()
        assert now < deadline, f"job {job} is still {state}"
        if state != {"PENDING"}:
            queued_seconds = None
        elif queued_seconds is None:
            queued_seconds = now
        elif now - queued_seconds > REST_SECONDS:
            slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
            queued_seconds = now
        time.sleep(0.1)
    return " ".join(sorted(state))


def result(folder: Path, name: str = "run") -> dict[str, float]:
    found: dict[str, float] = json.loads((folder / "runs" / name / "result.json").read_text())
    return found


def test_one_node(submit: Submit, folder: Path) -> None:
    state, out = submit("one_node.sbatch", "run.toml")
    assert state == "COMPLETED", out
    assert result(folder)["test_accuracy"] > 0.9


@pytest.mark.parametrize("way", ["gloo", "ccl"])
def test_many_nodes_train_one_model(submit: Submit, folder: Path, way: str) -> None:
    if way == "ccl" and installed() is None:
        pytest.skip("oneCCL is not installed")
    words = ("--set", f"exchange.between_nodes={way}", "--set", "exchange.method=sync_easgd3")
    state, out = submit("many_nodes.sbatch", "run.toml", *words)
    assert state == "COMPLETED", out
    assert f"with 2 workers on 2 nodes, exchanging by {way}" in out
    assert result(folder)["test_accuracy"] > 0.9


def test_task_for_each_worker_shares_its_nodes_memory(submit: Submit, folder: Path) -> None:
    words = (*GLOO.split(), "--set", "exchange.method=hierarchical_easgd")
    state, out = submit("hybrid.sbatch", "run.toml", *words)
    assert state == "COMPLETED", out
    assert "with 4 workers on 2 nodes" in out
    assert result(folder)["test_accuracy"] > 0.9
    runs = sorted(path.name for path in (folder / "runs/run").glob("worker-*.log"))
    assert runs == [f"worker-{rank}.log" for rank in range(4)]


def test_tasks_of_one_node_share_its_memory(submit: Submit, folder: Path) -> None:
    state, out = submit("hybrid.sbatch", "run.toml", options="--nodes=1")
    assert state == "COMPLETED", out
    assert "by sync_easgd with 2 workers;" in out
    assert result(folder)["test_accuracy"] > 0.9


def test_one_task_has_all_gpus_of_its_node(submit: Submit, folder: Path) -> None:
    on_the_host = "--set backend.device=cpu --set workers=1 --set train.epochs=1"
    state, out = submit(
        "gpu_nodes.sbatch", "run.toml", *on_the_host.split(), options="--gres=gpu:2"
    )
    assert state == "COMPLETED", out
    assert "task 0 sees GPUs: 0,1, cpus: " in out
    assert result(folder)["backend"] == "torch"


def test_nodes_with_and_without_gpus_train_one_model(submit: Submit, folder: Path) -> None:
    words = (*GLOO.split(), "--set", "exchange.method=sync_easgd3")
    state, out = submit("mixed_nodes.sbatch", "run.toml", *words)
    assert state == "COMPLETED", out
    cores = len(read_allowed().cpus)
    assert f"task 0 sees GPUs: 0, cpus: {cores}\n" in out
    assert f"task 1 sees GPUs: none, cpus: {cores}\n" in out
    assert "with 2 workers on 2 nodes, exchanging by gloo" in out
    assert result(folder)["test_accuracy"] > 0.9


def test_weak_scaling_gives_each_worker_as_many_images(submit: Submit, folder: Path) -> None:
    state, out = submit("weak_scaling.sbatch", "run.toml", "16", "1", *GLOO.split())
    assert state == "COMPLETED", out
    [report] = (folder / "runs").glob("weak-*.json")
    for nodes in (1, 2):
        assert result(folder, f"{report.stem}-{nodes}")["workers"] == nodes
        config = (folder / f"runs/{report.stem}-{nodes}/config.toml").read_text()
        assert f"batch = {16 * nodes}\n" in config
    assert "weak scaling" in out
    rows = json.loads(report.read_text())["rows"]
    assert [row["nodes"] for row in rows] == [1, 2]
    assert report.with_suffix(".png").exists()


@pytest.mark.long
def test_an_array_that_is_submitted_again_compares_its_own_runs(
    submit: Submit, folder: Path
) -> None:
    chosen = ("--set", "exchange.method=none", "--set", "train.steps=4")
    for _ in range(2):
        state, out = submit("weak_scaling.sbatch", "run.toml", "16", "1", *GLOO.split(), *chosen)
        assert state == "COMPLETED", out
    reports = [json.loads(each.read_text()) for each in (folder / "runs").glob("weak-*.json")]
    assert [len(each["rows"]) for each in reports] == [2, 2]


def test_high_bandwidth_memory_that_is_not_there_is_told(submit: Submit, folder: Path) -> None:
    """These nodes have the features of a Xeon Phi in flat mode, which they are not."""
    state, out = submit("high_bandwidth_memory.sbatch", "run.toml")
    assert state == "FAILED"
    assert "FAIL" in out
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("nodes", "by_slurm"),
    [
        pytest.param(2, False, id="told to stop"),
        pytest.param(1, False, id="one node", marks=pytest.mark.long),
        pytest.param(1, True, id="by its time limit", marks=pytest.mark.long),
    ],
)
def test_run_that_is_longer_than_its_job_goes_on_in_the_next(
    start: Start, folder: Path, slurm_cluster: Slurm, nodes: int, by_slurm: bool
) -> None:
    """It does not end by itself before it is told, and then after a few steps more.

    Slurm looks at time limits twice a minute, and signals up to half a minute too early. What it
    does then is what `scancel --signal` does.
    """
    words = ("--set", "train.steps=100000000", "--set", "evaluation.every_epochs=0")
    options = "--time=1 --signal=USR1@15" if by_slurm else "--time=60"
    job = start("requeue.sbatch", "run.toml", *words, options=f"--nodes={nodes} {options}")
    run = folder / f"runs/knltrain-{job}"
    metrics, config = run / "metrics-0.jsonl", run / "config.toml"
    soon(slurm_cluster, job, lambda: metrics.exists() and bool(metrics.read_text()))
    if not by_slurm:
        assert slurm_cluster("scancel", "--signal=USR1", job).returncode == 0
    soon(slurm_cluster, job, lambda: "stopped by SIGUSR1" in said(folder))
    (kept,) = run.glob("checkpoint-*")
    steps = int(kept.name.partition("-")[2]) + 4
    config.write_text(config.read_text().replace("steps = 100000000", f"steps = {steps}"))
    state, out = ended(slurm_cluster, folder, job)
    assert state == "COMPLETED", out[-2000:]
    assert result(folder, run.name)["steps"] == steps
    assert result(folder, run.name)["workers"] == nodes
    assert out.count("stopped by SIGUSR1") == nodes


def soon(slurm: Slurm, job: str, look: Callable[[], bool]) -> None:
    """Wait until what a job in the queue, or one that runs, is to do can be seen."""
    deadline = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < deadline, (job, slurm.state_of(job), slurm.log_of(job))
        time.sleep(0.1)


def test_run_that_fails_does_not_go_back_to_the_queue(submit: Submit, folder: Path) -> None:
    state, out = submit("requeue.sbatch", "run.toml", "--set", "learning_rate.base=1e10")
    assert state == "FAILED"
    assert "is not finite" in out
    assert "stopped by" not in out


def test_job_of_two_nodes_without_srun_is_refused(slurm_cluster: Slurm, folder: Path) -> None:
    script = folder / "bare.sh"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -m knltrain train run.toml\n")
    out = folder / "job.out"
    options = ("--partition=two", "--nodes=2", f"--chdir={folder}", f"--output={out}")
    done = slurm_cluster("sbatch", "--parsable", *options, str(script), PYTHONPATH=str(ROOT))
    assert wait_for(slurm_cluster, done.stdout.strip()) == "FAILED"
    assert "has 2 computers, of which this process would use one: put srun before" in (
        out.read_text()
    )
