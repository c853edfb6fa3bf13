"""The step benchmark as a whole: real contestants, short rounds."""

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from knltrain.backends.torch import devices
from knltrain.bench.step import benchmark
from knltrain.bench.step.peer_process import PeerError
from knltrain.errors import ConfigError
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.lenet import lenet
from vectorized_ops.numba.emit import bfloat16


@pytest.fixture(scope="module")
def report():
    patch = pytest.MonkeyPatch()
    patch.setattr(benchmark, "ROUND_SECONDS", 0.05)
    yield benchmark.run_step_benchmark("lenet", None, ("torch", "torch-tuned"), threads=1, rounds=2)
    patch.undo()


@pytest.mark.slow
def test_head_holds_machine_and_its_bounds(report):
    assert report["machine"]["model"]
    assert report["sgemm_gflops"] > 0
    assert report["copy_gbytes_per_second"] > 0
    assert report["batch"] == 64  # LeNet's own
    assert json.loads(json.dumps(report)) == report


@pytest.mark.slow
def test_rows_hold_rate_share_and_the_same_first_loss(report):
    rows = {row["implementation"]: row for row in report["rows"]}
    assert list(rows) == ["cpu", "torch", "torch-tuned"]
    assert report["losses_agree"] is True
    for row in rows.values():
        assert 10 << 20 < row["peak_bytes"] < 4 << 30
        assert row["share_of_sgemm_peak"] > 0
        assert len(row["rounds"]) == report["rounds"]
    assert rows["cpu"]["first_loss"] == pytest.approx(rows["torch"]["first_loss"], rel=1e-5)
    pairs = zip(rows["cpu"]["rounds"], rows["torch"]["rounds"], strict=True)
    ratio = statistics.median(cpu / torch for cpu, torch in pairs)
    assert rows["cpu"]["faster_than"]["torch"] == pytest.approx(ratio)
    assert rows["torch"]["ours_to_it"] == pytest.approx(ratio)
    assert set(report["best_peer"]["rounds"]) <= {"torch", "torch-tuned"}


def without_gpu(name, **options):
    """What a name stands for where there is no accelerator."""
    if name == "auto":
        return torch.device("cpu")
    raise ConfigError(f"{options['key']} = '{name}': there is none")


class Scripted:
    """A contestant or machine whose answers are known beforehand."""

    def __init__(self, name, *answers):
        self.name, self._answers = name, list(answers)
        self.ready, self.peak_bytes = {"loss": 0.5}, 1 << 20

    def measure(self, seconds):
        return self._answers.pop(0)

    steps_per_second = measure


def test_rounds_alternate_between_all_contestants_and_the_machine():
    contestants = [Scripted("cpu", 1.0, 2.0, 6.0), Scripted("torch", 1.0, 1.0, 6.0)]
    machine = Scripted("machine", *({"sgemm_gflops": value} for value in (1.0, 4.0, 3.0)))
    measured = benchmark._measured(contestants, machine, 10, 3)
    assert measured.rates == {"cpu": [10, 20, 60], "torch": [10, 10, 60]}
    assert measured.bounds == {"sgemm_gflops": [1.0, 4.0, 3.0]}
    assert measured.peak_bytes == {"cpu": 1 << 20, "torch": 1 << 20}
    assert measured.ready["torch"] == {"loss": 0.5}


@pytest.mark.parametrize("loss", [1.01, math.nan])
def test_contestant_that_computes_something_else_is_refused(loss):
    assert benchmark._losses_agree({"cpu": 1.0, "torch": 1.0 + 1e-5}, 1e-3) is True
    with pytest.raises(PeerError, match=f"'torch' has a first loss of {loss}, but ours is 1.0"):
        benchmark._losses_agree({"cpu": 1.0, "torch": loss}, 1e-3)


def test_losses_are_not_compared_where_dropout_draws_differently():
    assert [any(map(benchmark._drops, made().layers)) for made in (lenet, alexnet)] == [False, True]


def test_peer_that_cannot_run_is_named_with_what_it_says(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no torch here, install it' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(PeerError, match="'ipex' ended with exit code 1: no torch here, install it"):
        benchmark.run_step_benchmark("lenet", 8, ("ipex",), threads=1, rounds=1, ipex_python=python)


@pytest.mark.slow
def test_a_benchmark_that_is_stopped_leaves_no_process_and_no_file(tmp_path):
    python, told, temporary = tmp_path / "python", tmp_path / "pid", tmp_path / "temporary"
    python.write_text(f"#!/bin/sh\necho $$ >{told}.new\nmv {told}.new {told}\nexec sleep 600\n")
    python.chmod(0o755)
    temporary.mkdir()
    command = [sys.executable, "-m", "knltrain", "bench", "step", "--peers", "ipex"]
    stopped = subprocess.Popen(
        [*command, "--ipex-python", str(python)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while not told.exists():
        assert stopped.poll() is None, stopped.stderr
        time.sleep(0.05)
    assert list(temporary.iterdir())
    stopped.send_signal(signal.SIGTERM)
    _, said = stopped.communicate()
    assert (stopped.returncode, said.strip()) == (143, "error: stopped by SIGTERM")
    assert not list(temporary.iterdir())
    assert not Path(f"/proc/{int(told.read_text())}").exists()


def test_unknown_peer_and_network_are_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown peer 'troch'.*did you mean 'torch'"):
        benchmark.run_step_benchmark("lenet", 8, ("troch",), threads=1, rounds=1)
    with pytest.raises(ConfigError, match=r"lenett.*did you mean 'lenet'"):
        benchmark.run_step_benchmark("lenett", 8, (), threads=1, rounds=1)


def test_more_threads_than_cores_are_refused():
    with pytest.raises(ConfigError, match="--threads 4096: the allowed cpus hold"):
        benchmark.run_step_benchmark("lenet", 8, (), threads=4096, rounds=1)


def test_threads_that_workers_cannot_share_evenly_are_refused():
    with pytest.raises(ConfigError, match="--workers 4096: expected a divisor of the 1 threads"):
        benchmark.run_step_benchmark("lenet", 8, (), threads=1, rounds=1, workers=4096)


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")
def test_workers_have_cores_of_their_own_unless_unpinned():
    groups = benchmark._groups(2, 2)
    assert [len(group) for group in groups] == [1, 1]
    assert not set(groups[0]) & set(groups[1])
    patch = pytest.MonkeyPatch()
    patch.setattr(benchmark, "ROUND_SECONDS", 0.05)
    report = benchmark.run_step_benchmark(
        "lenet", 16, ("unpinned",), threads=2, rounds=1, workers=2
    )
    patch.undo()
    assert [row["implementation"] for row in report["rows"]] == ["cpu", "unpinned"]
    assert report["workers"] == 2
    assert report["best_peer"] is None


@pytest.mark.slow
@pytest.mark.skipif(not bfloat16.IS_NATIVE, reason="this processor has no AVX512_BF16")
def test_in_bfloat16_ours_in_float32_is_one_of_the_peers(monkeypatch):
    monkeypatch.setattr(benchmark, "ROUND_SECONDS", 0.05)
    found = benchmark.run_step_benchmark(
        "lenet", 16, ("torch", "cpu-float32"), threads=1, rounds=1, precision="bfloat16"
    )
    ours, torchs, plain = found["rows"]
    assert (ours["implementation"], plain["implementation"]) == ("cpu", "cpu-float32")
    assert found["losses_agree"] is True
    assert len({row["first_loss"] for row in (ours, torchs, plain)}) == 3
    assert found["bfloat16_convolution_gflops"] > 0
    peak = found["bfloat16_gemm_gflops"]
    share = ours["images_per_second"] * found["flops_per_image"] / 1e9 / peak
    assert ours["share_of_bfloat16_gemm_peak"] == pytest.approx(share)
    assert found["best_peer"]["rounds"] == ["torch"]


@pytest.mark.slow
def test_evaluations_are_compared_at_the_first_output_alone(monkeypatch):
    monkeypatch.setattr(benchmark, "ROUND_SECONDS", 0.05)
    found = benchmark.run_step_benchmark(
        "alexnet", 1, ("torch",), threads=1, rounds=1, evaluates=True
    )
    assert found["losses_agree"] is True  # nothing is dropped
    assert found["flops_per_image"] == alexnet().flops_per_image


def test_bfloat16_without_its_instructions_is_refused(monkeypatch):
    monkeypatch.setattr(bfloat16, "IS_NATIVE", False)
    with pytest.raises(ConfigError, match=r"has no AVX512_BF16, .* leave it out, or name a --dev"):
        benchmark.run_step_benchmark("lenet", 4, (), threads=1, rounds=1, precision="bfloat16")


@pytest.mark.slow
def test_on_a_device_the_torch_backend_is_ours(monkeypatch):
    monkeypatch.setattr(benchmark, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(benchmark, "_device", lambda *_: {"device": "cpu", "model": "the host"})
    found = benchmark.run_step_benchmark(
        "lenet", 4, ("torch",), threads=1, rounds=1, device="cuda", precision="bfloat16"
    )
    assert [row["implementation"] for row in found["rows"]] == ["cpu", "torch"]
    assert found["device"]["model"] == "the host"
    assert found["precision"] == "bfloat16"
    assert found["losses_agree"] is True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"precision": "tf32"}, "--precision tf32 is of NVIDIA GPUs: expected float32 or bfloat16"),
        ({"device": "cuda", "workers": 2}, "--workers 2 with --device cuda: expected one worker"),
        ({"device": "quantum"}, "--device = 'quantum'"),
        ({"device": "auto"}, "PyTorch finds no accelerator"),
    ],
)
def test_what_no_device_has_is_refused(monkeypatch, changes, words):
    monkeypatch.setattr(devices, "device_named", without_gpu)
    with pytest.raises(ConfigError, match=words):
        benchmark.run_step_benchmark("lenet", 4, (), threads=1, rounds=1, **changes)
