"""What becomes of a worker's words."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from knltrain.config import load_config
from knltrain.launch.listener import Listener
from knltrain.launch.plan import RunPlan, plan_run
from knltrain.launch.progress import PlainDisplay

pytestmark = pytest.mark.usefixtures("two_cores")


@pytest.fixture
def plan(tmp_path: Path, run_toml: str) -> RunPlan:
    path = tmp_path / "run.toml"
    path.write_text(run_toml)
    return plan_run(load_config(path))


def _places(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "placement.json").read_text())["workers"]


def _placement_event(cpus: str, *problems: str) -> dict[str, Any]:
    threads = [{"id": 1, "name": "python", "cpus": cpus}]
    found = {"problems": list(problems), "remarks": ["96 % on HBM node 2"]}
    return {"event": "placement", "got": {"cpus": cpus, "threads": threads, **found}}


def test_what_was_asked_stands_there_before_the_workers_start(
    plan: RunPlan, tmp_path: Path
) -> None:
    Listener(plan, tmp_path, PlainDisplay(io.StringIO()))
    assert [(place["rank"], place["got"]) for place in _places(tmp_path)] == [(0, None), (1, None)]


def test_what_a_worker_got_is_added(plan: RunPlan, tmp_path: Path) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path, PlainDisplay(shown))
    asked = _places(tmp_path)[1]["asked"]["cpus"]
    listener.hear(1, _placement_event(asked))
    assert _places(tmp_path)[1]["got"]["cpus"] == asked
    assert _places(tmp_path)[0]["got"] is None
    assert shown.getvalue() == ""


def test_what_is_not_as_asked_is_noted_with_the_way_out(
    plan: RunPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    shown = io.StringIO()
    listener = Listener(plan, tmp_path, PlainDisplay(shown))
    listener.hear(1, _placement_event("77", "thread 1 (python) may run on cpus 77"))
    assert "worker 1: thread 1 (python) may run on cpus 77; see placement.json" in shown.getvalue()
    assert "unset OMP_PROC_BIND=true" in shown.getvalue()


def test_remarks_of_one_worker_stand_for_all(plan: RunPlan, tmp_path: Path) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path, PlainDisplay(shown))
    listener.hear(1, _placement_event("1"))
    assert shown.getvalue() == ""
    listener.hear(0, _placement_event("0"))
    assert "worker 0: 96 % on HBM node 2" in shown.getvalue()


def test_progress_is_shown_and_remembered(plan: RunPlan, tmp_path: Path) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path, PlainDisplay(shown))
    event = {"event": "progress", "step": 3, "total": 9, "loss": 1.5, "images_per_second": 10.0}
    event["data_share"] = 0.0
    listener.hear(0, event)
    listener.hear(0, {"event": "evaluation", "step": 3, "accuracy": 0.5, "loss": 1.0})
    assert listener.progress == event
    assert "step 3/9" in shown.getvalue()
    assert "50.00%" in shown.getvalue()


def test_what_could_not_be_written_is_told_once_and_remembered(
    plan: RunPlan, tmp_path: Path
) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path, PlainDisplay(shown))
    for lacks in ("the disk is full", "the disk is still full"):
        listener.hear(1, {"event": "unwritten", "what": "metrics-1.jsonl", "lacks": lacks})
    assert shown.getvalue() == "warning: worker 1: metrics-1.jsonl: the disk is full\n"
    assert listener.lacking == {(1, "metrics-1.jsonl"): "the disk is still full"}
    listener.hear(1, {"event": "unwritten", "what": "metrics-1.jsonl", "lacks": ""})
    assert shown.getvalue().endswith("note: worker 1: metrics-1.jsonl: it is written now\n")
    assert listener.lacking == {}


def test_places_that_cannot_be_written_end_no_run(plan: RunPlan, tmp_path: Path) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path / "gone", PlainDisplay(shown))
    assert "warning: worker 0: placement.json: cannot write" in shown.getvalue()
    (tmp_path / "gone").mkdir()
    listener.hear(1, _placement_event("1"))
    assert listener.lacking == {}


def test_skipped_pictures_of_all_workers_are_counted_and_named(
    plan: RunPlan, tmp_path: Path
) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path, PlainDisplay(shown))
    listener.tell_skipped()
    assert shown.getvalue() == ""
    listener.hear(0, {"event": "skipped", "pictures": {"b.jpg": "b.jpg: cut: expected more"}})
    listener.hear(1, {"event": "skipped", "pictures": {"b.jpg": "b.jpg: cut", "a.jpg": "a.jpg"}})
    listener.tell_skipped()
    path = tmp_path / "broken-pictures-0.txt"
    assert path.read_text() == "a.jpg\nb.jpg\n"
    assert f"note: 2 broken pictures were skipped, such as b.jpg: cut; all are named in {path}" in (
        shown.getvalue()
    )


def test_skipped_pictures_that_cannot_be_named_are_counted(plan: RunPlan, tmp_path: Path) -> None:
    shown = io.StringIO()
    listener = Listener(plan, tmp_path / "gone", PlainDisplay(shown))
    listener.hear(0, {"event": "skipped", "pictures": {"b.jpg": "b.jpg: cut"}})
    listener.tell_skipped()
    assert "1 broken picture was skipped, such as b.jpg: cut; " in shown.getvalue()
    assert "cannot be written (No such file or directory)" in shown.getvalue()


def test_an_unknown_word_is_a_defect(plan: RunPlan, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown event"):
        Listener(plan, tmp_path, PlainDisplay(io.StringIO())).hear(0, {"event": "singing"})
