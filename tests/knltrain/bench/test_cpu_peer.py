"""The cpu backend as a contestant."""

import io
import json
import sys

from knltrain.bench import cpu_peer
from knltrain.bench.job import write_job
from knltrain.network.lenet import lenet
from vectorized_ops.numba.journal import MadeKernel


def test_trains_on_the_jobs_batch_and_reports_the_first_loss(tmp_path, monkeypatch, capsys):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
    cpu_peer.main(tmp_path, 1)
    ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert 0 < ready["ready"]["loss"] < 20
    assert answer["steps"] >= 1


def test_starts_over_once_where_it_has_compiled():
    compiled, loaded = (MadeKernel("maxima", "(f4)", how, 0.5) for how in (True, False))
    started = []

    def execute(program, command):
        started.append((program, command))

    cpu_peer.start_over_if_compiled(["job", "2"], [loaded], execute)
    assert not started
    cpu_peer.start_over_if_compiled(["job", "2"], [loaded, compiled], execute)
    ((program, command),) = started
    assert program == command[0] == sys.executable
    assert command[1:] == ["-m", "knltrain.bench.cpu_peer", "job", "2", "again"]
    cpu_peer.start_over_if_compiled(command[3:], [compiled], execute)
    assert len(started) == 1
