"""PyTorch as a contestant, in a process that knows nothing of knltrain."""

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
    # -E: PYTHONPATH is not heeded, the folder of the script is.
    done = subprocess.run(
        [sys.executable, "-E", str(script), str(tmp_path), "1"],
        input="0.01\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert 0 < ready["ready"]["loss"] < 20
    assert answer["steps"] >= 1
    for file in (script, script.with_name("protocol.py")):
        assert "knltrain" not in file.read_text().split('"""')[2]


def test_unknown_layer_type_is_refused():
    with pytest.raises(ValueError, match="'Attention' is unknown"):
        torch_peer.build_modules([{"type": "Attention"}], [[4, 4, 1]])
