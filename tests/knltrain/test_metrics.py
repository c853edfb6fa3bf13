from __future__ import annotations

import errno
import io
import json
import os
import random
import threading
import time
from functools import partial

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from knltrain import metrics
from knltrain.clocks import Clocks
from knltrain.errors import RunFolderError
from knltrain.files import durable
from knltrain.metrics import MetricsLog, read_metrics, tf_record


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def open_log(tmp_path):
    logs = []

    def open_log(rank=1, resumed_step=0, **options):
        log = MetricsLog(tmp_path, rank, steps_per_epoch=4, resumed_step=resumed_step, **options)
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        log.close()


def train(log, clocks, steps, *, seconds_per_step=1.0, last=None):
    for step in steps:
        clocks.training.seconds += seconds_per_step
        clocks.exchange.seconds += 0.25 * seconds_per_step
        clocks.batch.seconds += 0.125 * seconds_per_step
        log.step_done(
            step,
            float(step),
            0.5,
            clocks,
            run_loss=partial(float, step + 0.5),
            images=10 * step,
            last=step == last,
        )


def test_training_record_covers_the_steps_since_the_one_before(tmp_path, open_log, clocks):
    log = open_log()
    log.start(clocks, images=0)
    train(log, clocks, [1])
    train(log, clocks, [2, 3, 4, 5], seconds_per_step=metrics.SECONDS_BETWEEN_RECORDS / 3.5)
    first, second = read_metrics(tmp_path / "metrics-1.jsonl")
    assert first == {
        "kind": "train",
        "step": 1,
        "epoch": 0.25,
        "loss": 1.0,
        "run_loss": 1.5,
        "learning_rate": 0.5,
        "images_per_second": 10.0,
        "exchange_share": 0.25,
        "data_share": 0.125,
        "seconds": 1.0,
    }
    assert second["step"] == 5
    assert second["loss"] == (2 + 3 + 4 + 5) / 4
    assert second["images_per_second"] == pytest.approx(10 * 3.5 / 0.2)
    assert second["seconds"] == pytest.approx(1 + 4 * 0.2 / 3.5)


def test_fast_steps_are_not_all_written_but_first_and_last_are(tmp_path, open_log, clocks):
    log = open_log()
    train(log, clocks, range(1, 100), seconds_per_step=1e-4, last=99)
    assert [record["step"] for record in read_metrics(tmp_path / "metrics-1.jsonl")] == [1, 99]


def test_every_record_is_on_disk_before_the_log_is_closed(tmp_path, open_log, clocks):
    log = open_log()
    train(log, clocks, [1, 2, 3])
    log.evaluated(3, 0.5, 0.7, 40, clocks)
    assert read_metrics(tmp_path / "metrics-1.jsonl")[-1] == {
        "kind": "test",
        "step": 3,
        "epoch": 0.75,
        "accuracy": 0.5,
        "loss": 0.7,
        "images": 40,
        "seconds": 3.0,
    }


def test_resumed_log_holds_every_step_once(tmp_path, open_log, clocks):
    stopped = open_log()
    train(stopped, clocks, range(1, 8))
    stopped.evaluated(4, 0.1, 1.0, 40, clocks)
    stopped.evaluated(7, 0.2, 1.0, 40, clocks)
    stopped.close()
    resumed = open_log(resumed_step=4)
    train(resumed, Clocks(), range(5, 10))
    records = read_metrics(tmp_path / "metrics-1.jsonl")
    assert [each["step"] for each in records if each["kind"] == "train"] == list(range(1, 10))
    assert [each["step"] for each in records if each["kind"] == "test"] == [4]


def test_resumed_log_of_a_worker_that_is_not_where_the_run_is(tmp_path, open_log, clocks):
    stopped = open_log()
    train(stopped, clocks, range(1, 8))
    for step in (4, 6, 8):
        stopped.evaluated(step, 0.1, 1.0, 40, clocks)
    stopped.close()
    open_log(resumed_step=3, resumed_run_step=6)
    records = read_metrics(tmp_path / "metrics-1.jsonl")
    assert [each["step"] for each in records if each["kind"] == "train"] == [1, 2, 3]
    assert [each["step"] for each in records if each["kind"] == "test"] == [4, 6]


def test_rates_of_a_resumed_log_leave_out_the_time_before(tmp_path, open_log, clocks):
    clocks.training.seconds = 1000.0
    log = open_log(resumed_step=100)
    log.start(clocks, images=1000)
    train(log, clocks, [101])
    (record,) = read_metrics(tmp_path / "metrics-1.jsonl")
    assert record["images_per_second"] == 10.0
    assert record["seconds"] == 1001.0


def test_new_run_in_a_used_folder_starts_an_empty_log(tmp_path, open_log, clocks):
    train(open_log(), clocks, [1, 2])
    open_log()
    assert read_metrics(tmp_path / "metrics-1.jsonl") == []


def test_line_cut_short_by_a_kill_is_left_out(tmp_path, open_log, clocks):
    log = open_log()
    train(log, clocks, [1, 2])
    log.close()
    path = tmp_path / "metrics-1.jsonl"
    path.write_text(path.read_text()[:-20])
    assert [record["step"] for record in read_metrics(path)] == [1]
    train(open_log(resumed_step=1), Clocks(), [2])
    assert [record["step"] for record in read_metrics(path)] == [1, 2]


def test_damaged_line_is_named(tmp_path):
    path = tmp_path / "metrics-0.jsonl"
    path.write_text('{"step": 1}\nrubbish\n{"step": 2}\n')
    with pytest.raises(RunFolderError, match=r"metrics-0.jsonl, line 2: .* 'rubbish'"):
        read_metrics(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(RunFolderError, match=r"metrics-0.jsonl: cannot read"):
        read_metrics(tmp_path / "metrics-0.jsonl")


def test_tensorboard_finds_the_scalars_of_rank_0(tmp_path, open_log, clocks):
    log = open_log(rank=0)
    train(log, clocks, [1, 2])
    log.evaluated(2, 0.5, 0.7, 40, clocks)
    log.close()
    assert scalars(tmp_path) == {
        ("train/loss", 1): 1.0,
        ("train/loss", 2): 2.0,
        ("test/accuracy", 2): 0.5,
    }


@pytest.mark.parametrize("size", [0, 1, 7, 8, 300, 70_000])
def test_records_are_those_of_tensorboard(size):
    content, written = random.Random(size).randbytes(size), io.BytesIO()
    RecordWriter(written).write(content)
    assert tf_record(content) == written.getvalue()


def test_only_rank_0_writes_tensorboard_events(tmp_path, open_log):
    open_log(rank=1).close()
    assert list(tmp_path.glob("events.out.tfevents.*")) == []


def test_closed_log_leaves_no_thread(open_log):
    before = threading.active_count()
    open_log(rank=0).close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread of the queue ends a moment after the writer
    assert threading.active_count() == before


def test_lines_are_plain_json(tmp_path, open_log, clocks):
    train(open_log(), clocks, [1])
    (line,) = (tmp_path / "metrics-1.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 1


def scalars(folder):
    """Some of the scalars in the event files, read as records of TensorBoard's own format."""
    from tensorboard.compat.proto.event_pb2 import Event

    found = {}
    for path in folder.glob("events.out.tfevents.*"):
        content = path.read_bytes()
        while content:
            size = int.from_bytes(content[:8], "little")
            event = Event.FromString(content[12 : 12 + size])
            for value in event.summary.value:
                if value.tag in ("train/loss", "test/accuracy"):
                    found[value.tag, event.step] = value.simple_value
            content = content[16 + size :]
    return found


def test_log_on_a_full_disk_waits_and_tells(tmp_path, open_log, clocks, monkeypatch):
    monkeypatch.setattr(durable, "RETRY_SECONDS", 0.0)
    log, write = open_log(rank=0), os.write

    def full(_fd, _content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, "write", full)
    train(log, clocks, [1, 2])
    names = ["metrics-0.jsonl", *(path.name for path in tmp_path.glob("events*"))]
    assert {name for name, lacks in log.lacking().items() if "No space" in lacks} == set(names)
    monkeypatch.setattr(durable.os, "write", write)
    log.write_out()
    assert set(log.lacking().values()) == {""}
    assert [record["step"] for record in read_metrics(tmp_path / "metrics-0.jsonl")] == [1, 2]
    log.close()
    assert scalars(tmp_path) == {("train/loss", 1): 1.0, ("train/loss", 2): 2.0}


@pytest.mark.parametrize("content", ['{"step": 1}\nrubbish\n{}\n', "[]\n", "\x00\xff\n{}\n"])
def test_damaged_log_of_a_resumed_run_is_put_aside_and_told(tmp_path, open_log, clocks, content):
    path = tmp_path / "metrics-1.jsonl"
    path.write_text(content, encoding="latin-1")
    log = open_log(resumed_step=5)
    assert "before step 5 are damaged" in log.lacking()[path.name]
    assert (tmp_path / "metrics-1.jsonl.damaged").read_text(encoding="latin-1") == content
    train(log, clocks, [6])
    assert [record["step"] for record in read_metrics(path)] == [6]


def test_log_that_cannot_be_rewritten_keeps_all_and_tells(tmp_path, open_log, clocks, monkeypatch):
    stopped = open_log()
    train(stopped, clocks, [1, 2, 3])
    stopped.close()

    def full(_path, _text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(metrics, "write_whole", full)
    log = open_log(resumed_step=2)
    assert "taken anew cannot be removed (No space" in log.lacking()["metrics-1.jsonl"]
    assert len(read_metrics(tmp_path / "metrics-1.jsonl")) == 3
    monkeypatch.undo()
