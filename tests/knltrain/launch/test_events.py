"""Lines through a real pipe, whole, cut and after the reader is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from knltrain.launch import events
from knltrain.launch.events import EventReader, EventWriter
from knltrain.launch.failure import Failure


@pytest.fixture
def pipe() -> Iterator[tuple[EventReader, int]]:
    read_fd, write_fd = os.pipe()
    reader = EventReader(read_fd)
    yield reader, write_fd
    reader.close()


def test_events_arrive_in_order_with_the_time_they_were_sent(pipe: tuple[EventReader, int]) -> None:
    reader, fd = pipe
    writer = EventWriter(fd)
    writer.send("progress", step=1)
    writer.send("done", result={"steps": 1})
    first, second = reader.read()
    os.close(fd)
    assert (first["event"], first["step"]) == ("progress", 1)
    assert (second["event"], second["result"]) == ("done", {"steps": 1})
    assert first["at_seconds"] <= second["at_seconds"]


def test_reading_an_empty_pipe_returns_at_once(pipe: tuple[EventReader, int]) -> None:
    reader, fd = pipe
    assert reader.read() == []
    assert not reader.at_end
    os.close(fd)


def test_a_line_in_two_pieces_is_one_event(pipe: tuple[EventReader, int]) -> None:
    reader, fd = pipe
    os.write(fd, b'{"event": "pro')
    assert reader.read() == []
    os.write(fd, b'gress"}\n{"event"')
    assert reader.read() == [{"event": "progress"}]
    os.close(fd)


def test_a_line_cut_short_by_a_death_is_dropped(pipe: tuple[EventReader, int]) -> None:
    reader, fd = pipe
    os.write(fd, b'{"event": "progress"}\n{"event": "done"')
    os.close(fd)
    assert reader.read() == [{"event": "progress"}]
    assert reader.at_end


def test_a_line_longer_than_the_pipe_holds_arrives_whole(pipe: tuple[EventReader, int]) -> None:
    reader, fd = pipe
    child = os.fork()
    if child == 0:
        EventWriter(fd).send("placement", threads="x" * 200_000)
        os._exit(0)
    os.close(fd)
    arrived = []
    while not reader.at_end:
        arrived += reader.read()
    os.waitpid(child, 0)
    assert [len(event["threads"]) for event in arrived] == [200_000]


def test_a_writer_without_a_reader_goes_on() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    EventWriter(write_fd).send("progress", step=1)
    os.close(write_fd)


def test_progress_is_rare_except_for_the_last_step(pipe: tuple[EventReader, int]) -> None:
    writer = EventWriter(pipe[1])
    assert writer.progress_is_due(last=False)
    assert not writer.progress_is_due(last=False)
    assert writer.progress_is_due(last=True)
    os.close(pipe[1])


def test_a_parent_that_reads_nothing_misses_progress_but_no_result(
    pipe: tuple[EventReader, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_WAIT_SECONDS", 1.0)
    reader, fd = pipe
    writer = EventWriter(fd)
    for step in range(10_000):  # many times what the pipe holds
        writer.send("progress", step=step)
    writer.send("placement", threads="x" * 20_000)
    writer.send("done", result={"steps": 10_000})
    os.close(fd)
    *told, placement, done = reader.read()
    assert [event["step"] for event in told] == list(range(len(told)))
    assert 0 < len(told) < 10_000
    assert len(placement["threads"]) == 20_000
    assert done["result"] == {"steps": 10_000}


def test_waiting_for_a_parent_has_an_end(
    pipe: tuple[EventReader, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_WAIT_SECONDS", 0.05)
    with pytest.raises(TimeoutError, match="has read nothing"):
        EventWriter(pipe[1]).send("placement", threads="x" * 200_000)
    os.close(pipe[1])


@pytest.mark.parametrize(
    "line",
    [
        b"libfabric: warning: no domain",
        b"[" * 20_000,
        b"[]",
        b'{"event": 1}',
        b'{"event": "done"}',
        b'{"event": "error"}',
        b"\xff\xfe",
    ],
    ids=lambda line: line[:12],
)
def test_what_is_no_event_is_an_error_of_the_worker(
    pipe: tuple[EventReader, int], line: bytes
) -> None:
    reader, fd = pipe
    os.write(fd, line + b'\n{"event": "progress"}\n')
    os.close(fd)
    first, second = reader.read()
    assert (first["event"], second["event"]) == ("error", "progress")
    assert "where its parent expects events" in Failure.from_event(0, first).cause


def test_line_without_an_end_does_not_fill_the_memory(
    pipe: tuple[EventReader, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_LINE_BYTES", 1000)
    reader, fd = pipe
    os.write(fd, b"x" * 2000)
    assert [event["event"] for event in reader.read()] == ["error"]
    os.close(fd)
