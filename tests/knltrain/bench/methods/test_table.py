from __future__ import annotations

from typing import Any

from knltrain.bench.methods.table import format_table


def test_table_tells_results_costs_and_failures(report: dict[str, Any]) -> None:
    text = format_table(report)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "lenet on digits, 1 epochs in batches of 64 over all workers, 2 workers" in text
    figures = "98.50% 98.00% 6.50 s 0.75 4.25x 2.00x 112 128"
    assert f"sync_easgd {figures} learning_rate 0.05, warmup_epochs 1.0" in lines
    assert any(line.startswith("original_easgd 97.50% 96.00% never - 1.25x") for line in lines)
    shares = "11.1% 11.1% 11.1% 16.7% 11.1% 11.1% 11.1% 28.7% 94.0%"
    assert f"sync_easgd 1.00 s 1.00 s 9.00 s {shares}" in lines
    assert "sync_easgd 2700.000 - 0.50" in lines
    assert lines[-1] == "async_sgd failed: worker 1 failed: step 7"


def test_an_emulated_link_is_called_so(report: dict[str, Any]) -> None:
    assert "link" not in format_table(report)
    link = {"emulated_link_gbits": 10.0, "emulated_latency_us": 2.5}
    text = format_table({**report, "emulated_link": link})
    assert "over an emulated link of 10 Gbit/s for each worker, latency 2.5 µs" in text


def test_who_has_a_batch_is_told(report: dict[str, Any]) -> None:
    assert "in batches of 64 over all workers, 2 workers" in format_table(report)
    weak = format_table({**report, "scaling": "weak"})
    assert "in batches of 64 for each worker, 2 workers" in weak
