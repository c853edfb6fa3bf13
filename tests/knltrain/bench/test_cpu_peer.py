"""The cpu backend as a contestant."""

import io
import json
import sys

from knltrain.bench import cpu_peer
from knltrain.bench.job import write_job
from knltrain.network.lenet import lenet


def test_trains_on_the_jobs_batch_and_reports_the_first_loss(tmp_path, monkeypatch, capsys):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
    cpu_peer.main(tmp_path, 1)
    ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert 0 < ready["ready"]["loss"] < 20
    assert answer["steps"] >= 1
