"""The machine's bounds."""

import io
import json
import sys

import pytest
import torch

from knltrain.bench.step import machine_peer
from vectorized_ops.shapes import ConvolutionShape

BOTH = {"sgemm_gflops", "copy_gbytes_per_second"}


@pytest.mark.parametrize(
    ("measure", "bounds"),
    [
        (lambda: machine_peer.main(1), BOTH),
        (
            lambda: machine_peer.main(1, "bfloat16"),
            BOTH | {"bfloat16_gemm_gflops", "bfloat16_convolution_gflops"},
        ),
        (lambda: machine_peer.on_device(torch.device("cpu"), "float32"), BOTH),
        (lambda: machine_peer.on_device(torch.device("cpu"), "bfloat16"), BOTH),
    ],
    ids=["host", "host in bfloat16", "device", "device in bfloat16"],
)
def test_answers_with_all_bounds(monkeypatch, capsys, measure, bounds):
    for name in ("SIDE", "DEVICE_SIDE"):
        monkeypatch.setattr(machine_peer, name, 64)
    for name in ("COPIED_BYTES", "DEVICE_COPIED_BYTES"):
        monkeypatch.setattr(machine_peer, name, 1 << 16)
    monkeypatch.setattr(machine_peer, "CONVOLUTION", ConvolutionShape(16, 2, 2, 16, 16, (1, 1)))
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
    measure()
    ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert ready == {"ready": {}}
    assert set(answer) == bounds
    assert min(answer.values()) > 0
