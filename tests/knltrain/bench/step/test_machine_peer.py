"""The machine's bounds."""

import io
import json
import sys

from knltrain.bench.step import machine_peer


def test_answers_with_both_bounds(monkeypatch, capsys):
    monkeypatch.setattr(machine_peer, "SIDE", 64)
    monkeypatch.setattr(machine_peer, "COPIED_BYTES", 1 << 16)
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.001\n"))
    machine_peer.main(1)
    ready, answer = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert ready == {"ready": {}}
    assert set(answer) == {"sgemm_gflops", "copy_gbytes_per_second"}
    assert min(answer.values()) > 0
