from __future__ import annotations

import json
import threading
from pathlib import Path

from knltrain.trace import Trace


def test_trace_has_what_went_on_in_each_thread(tmp_path: Path) -> None:
    trace = Trace(3, "worker 3")
    computing, exchanging = trace.of("gradient"), trace.of("beside")
    computing(1.0, 1.5)
    thread = threading.Thread(target=exchanging, args=(1.25, 1.75), name="exchange")
    thread.start()
    thread.join()
    trace.write(tmp_path / "trace.json")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {3}
    names = {
        event["tid"]: event["args"]["name"]
        for event in events
        if "tid" in event and event["ph"] == "M"
    }
    done = [(event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert done == [("gradient", 1e6, 0.5e6), ("beside", 1.25e6, 0.5e6)]
    threads = [names[event["tid"]] for event in events if event["ph"] == "X"]
    assert threads == [threading.main_thread().name, "exchange"]


def test_lines_that_are_no_thread_s_have_a_number_each(tmp_path: Path) -> None:
    trace = Trace(0, "worker 0")
    for line in ("visits", "others", "visits"):
        trace.of("read", line)(0.0, 1.0)
    trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    shown = [named[each["tid"]] for each in events if each["ph"] == "X"]
    assert shown == ["visits", "others", "visits"]
