"""The cpu backend as a contestant."""

import io
import json
import os
import sys

import pytest

from knltrain.bench.step import cpu_peer
from knltrain.bench.step.job import write_job
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.networks import network_named
from vectorized_ops.numba.compiling.journal import MadeKernel


def test_trains_on_the_jobs_batch_in_the_precision_and_reports_the_first_loss(
    tmp_path, monkeypatch, capsys
):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    losses = {}
    for precision in ("float32", "bfloat16"):  # emulated where need be
        monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
        cpu_peer.main(tmp_path, 1, precision)
        ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        assert answer["steps"] >= 1
        losses[precision] = ready["ready"]["loss"]
    assert 0 < losses["float32"] < 20
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=3e-2)


def test_evaluates_the_jobs_batch(tmp_path, monkeypatch, capsys):
    losses = []
    for evaluates in (False, True):
        write_job(tmp_path, network_named("resnet-20"), batch=4, seed=1, evaluates=evaluates)
        monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
        cpu_peer.main(tmp_path, 1, "float32")
        ready, _ = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        losses.append(ready["ready"]["loss"])
    assert losses[0] != losses[1]  # of statistics of the batch, and of the first running ones


def test_starts_over_once_where_it_has_compiled_and_on_the_cpus_it_had_first():
    compiled, loaded = (MadeKernel("maxima", "(f4)", how, 0.5) for how in (True, False))
    cpus, started = os.sched_getaffinity(0), []

    def execute(program, command):
        started.append((program, command, os.sched_getaffinity(0)))

    def start_over(arguments, made):
        os.sched_setaffinity(0, {min(cpus)})  # as threads that are pinned leave the main one
        try:
            cpu_peer.start_over_if_compiled(arguments, cpus, made, execute)
        finally:
            os.sched_setaffinity(0, cpus)

    start_over(["job", "2", "float32"], [loaded])
    assert not started
    start_over(["job", "2", "float32"], [loaded, compiled])
    ((program, command, places),) = started
    assert program == command[0] == sys.executable
    assert command[1:] == ["-m", "knltrain.bench.step.cpu_peer", "job", "2", "float32", "again"]
    assert places == cpus
    start_over(command[3:], [compiled])
    assert len(started) == 1
