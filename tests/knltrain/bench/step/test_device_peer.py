"""The torch backend on a device as a contestant; here the device is the host."""

import io
import json
import sys

import pytest

from knltrain.bench.step import device_peer, torch_peer
from knltrain.bench.step.job import write_job
from knltrain.network.zoo.cifar_quick import cifar_quick


def told(capsys, main, *arguments):
    sys.stdin.seek(0)
    main(*arguments)
    ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert answer["steps"] >= 1
    return ready["ready"]


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_begins_with_the_loss_of_its_peer(tmp_path, monkeypatch, capsys, precision, tolerance):
    write_job(tmp_path, cifar_quick(), batch=4, seed=1)
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
    ours = told(capsys, device_peer.main, tmp_path, 1, "eager", "cpu", precision)
    peers = told(capsys, torch_peer.main, tmp_path, 1, "eager", "cpu", precision)
    assert ours["loss"] == pytest.approx(peers["loss"], rel=tolerance)
    assert ours["version"].startswith("knltrain ")
