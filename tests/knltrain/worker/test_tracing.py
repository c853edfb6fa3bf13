"""A worker's first steps as a trace."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from knltrain.worker.tracing import WritesTrace


@pytest.mark.parametrize(("asked", "steps"), [(2, 2), (9, 5)])
def test_trace_has_the_parts_of_the_first_steps_or_of_all(
    make_worker, easgd, tmp_path, asked, steps
):
    path = tmp_path / "trace-0.json"
    make_worker(easgd(), steps=5, observers=[WritesTrace(path, 0, asked)]).run()
    events = json.loads(path.read_text())["traceEvents"]
    counted = Counter(event["name"] for event in events if event["ph"] == "X")
    assert counted["batch"] == counted["gradient"] == counted["update"] == steps
    assert counted["exchange"] >= steps
