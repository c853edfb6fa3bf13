"""PyTorch as a contestant, in a process that knows nothing of knltrain."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.bench import torch_peer
from knltrain.bench.job import write_job
from knltrain.network.lenet import lenet


def test_runs_without_knltrain_on_the_path(tmp_path):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    script = Path(torch_peer.__file__)
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(tmp_path), "1"],
        input="0.01\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert 0 < ready["ready"]["loss"] < 20
    assert answer["steps"] >= 1
    assert "knltrain" not in script.read_text().split('"""')[2]


def test_unknown_layer_type_is_refused():
    with pytest.raises(ValueError, match="'Attention' is unknown"):
        torch_peer.build_modules([{"type": "Attention"}], [[4, 4, 1]])


def test_serve_answers_each_line_and_ends_with_the_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.5\n2\n"))
    torch_peer.serve({"loss": 1.0}, lambda seconds: {"asked": seconds})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"ready": {"loss": 1.0}}, {"asked": 0.5}, {"asked": 2.0}]


def test_steps_within_counts_at_least_one_step():
    answer = torch_peer.steps_within(1e-9, lambda: None)
    assert answer["steps"] == 1
    assert answer["seconds"] > 0
