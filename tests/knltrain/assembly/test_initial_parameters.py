"""A run's initial parameters are drawn once, by its parent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from knltrain.assembly import initial_parameters
from knltrain.assembly.initial_parameters import InitialParameters, drawn_elsewhere
from knltrain.errors import SegmentError
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

NETWORK, SEED = lenet(), 5
OPEN = Path("/proc/self/fd")


@pytest.fixture
def drawing() -> Iterator[InitialParameters]:
    made = InitialParameters(NETWORK, SEED, 2)
    yield made
    made.close()


def inherited(drawing: InitialParameters) -> tuple[int, int]:
    memory, ready = map(os.dup, drawing.fds)
    return memory, ready


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_each_reader_finds_what_it_would_have_drawn(drawing: InitialParameters) -> None:
    own = ParameterVector(NETWORK)
    own.initialise(SEED)
    readers = [inherited(drawing) for _ in range(2)]
    drawing.begin()
    for fds in readers:
        found = drawn_elsewhere(NETWORK, *fds)
        assert found is not None
        np.testing.assert_array_equal(found.packed, own.packed)
        assert not found.packed.flags.writeable
        assert not any(map(is_open, fds))


def test_memory_is_not_kept_longer_than_it_is_drawn(drawing: InitialParameters) -> None:
    own, reader = drawing.fds, inherited(drawing)
    drawing.begin()
    assert drawn_elsewhere(NETWORK, *reader) is not None
    drawing._thread.join()
    assert not any(map(is_open, own))


@pytest.mark.parametrize("error", [SegmentError, OSError, MemoryError, RuntimeError])
def test_readers_draw_for_themselves_without_memory_or_threads(
    error: type[Exception], drawing: InitialParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error("there is none")

    monkeypatch.setattr(initial_parameters.anonymous_file, "reserve", refuse)
    reader = inherited(drawing)
    drawing.begin()
    assert drawn_elsewhere(NETWORK, *reader) is None


def test_readers_draw_for_themselves_where_no_thread_can_be_started(
    drawing: InitialParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    reader = inherited(drawing)
    drawing.begin()
    assert drawn_elsewhere(NETWORK, *reader) is None


def test_nothing_is_left_open_where_there_is_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("too many open files")

    before = set(OPEN.iterdir())
    monkeypatch.setattr(os, "pipe", refuse)
    with pytest.raises(OSError, match="too many"):
        InitialParameters(NETWORK, SEED, 2)
    assert set(OPEN.iterdir()) <= before


def test_a_drawing_that_nobody_waits_for_stops(
    drawing: InitialParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a worker has failed at once."""
    begun, drawn, goes_on = Event(), list[int](), Event()

    def wait(*_: object) -> None:
        begun.set()
        goes_on.wait(60)
        drawn.append(1)
        time.sleep(0.002)

    monkeypatch.setattr("knltrain.network.parameters.draw", wait)
    monkeypatch.setattr("knltrain.network.parameters.CHUNK", 64)
    reader = inherited(drawing)
    drawing.begin()
    assert begun.wait(60)
    drawing._stopped.set()
    goes_on.set()
    drawing.close()
    assert len(drawn) < 1000 < NETWORK.packed_size / 64
    assert drawn_elsewhere(NETWORK, *reader) is None


def test_what_was_never_begun_is_not_waited_for() -> None:
    drawing = InitialParameters(NETWORK, SEED, 2)
    fds = inherited(drawing)
    drawing.close()
    assert drawn_elsewhere(NETWORK, *fds) is None
