"""The machine's bounds."""

import io
import json
import sys

import pytest
import torch

from knltrain.bench.step import machine_peer


@pytest.mark.parametrize(
    "measure",
    [
        lambda: machine_peer.main(1),
        lambda: machine_peer.on_device(torch.device("cpu"), "float32"),
        lambda: machine_peer.on_device(torch.device("cpu"), "bfloat16"),
    ],
    ids=["host", "device", "device in bfloat16"],
)
def test_answers_with_both_bounds(monkeypatch, capsys, measure):
    for name in ("SIDE", "DEVICE_SIDE"):
        monkeypatch.setattr(machine_peer, name, 64)
    for name in ("COPIED_BYTES", "DEVICE_COPIED_BYTES"):
        monkeypatch.setattr(machine_peer, name, 1 << 16)
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
    measure()
    ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert ready == {"ready": {}}
    assert set(answer) == {"sgemm_gflops", "copy_gbytes_per_second"}
    assert min(answer.values()) > 0
