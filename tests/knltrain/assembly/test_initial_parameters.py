"""A run's initial parameters are drawn once, by its parent."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from knltrain.assembly import initial_parameters
from knltrain.assembly.initial_parameters import InitialParameters, drawn_elsewhere
from knltrain.errors import SegmentError
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

NETWORK, SEED = lenet(), 5


@pytest.fixture
def drawing() -> Iterator[InitialParameters]:
    made = InitialParameters(NETWORK, SEED, 2)
    yield made
    made.close()


def inherited(drawing: InitialParameters) -> tuple[int, int]:
    memory, filled = map(os.dup, drawing.fds)
    return memory, filled


def test_each_reader_finds_what_it_would_have_drawn(drawing: InitialParameters) -> None:
    own = ParameterVector(NETWORK)
    own.initialise(SEED)
    drawing.begin()
    for _ in range(2):
        fds = inherited(drawing)
        found = drawn_elsewhere(NETWORK, *fds)
        assert found is not None
        np.testing.assert_array_equal(found.packed, own.packed)
        assert not found.packed.flags.writeable
        for fd in fds:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)


@pytest.mark.parametrize("error", [SegmentError, OSError, MemoryError])
def test_readers_draw_for_themselves_without_memory(
    error: type[Exception], drawing: InitialParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error("no memory")

    monkeypatch.setattr(initial_parameters.anonymous_file, "reserve", refuse)
    drawing.begin()
    assert drawn_elsewhere(NETWORK, *inherited(drawing)) is None


def test_what_was_never_begun_is_not_waited_for() -> None:
    drawing = InitialParameters(NETWORK, SEED, 2)
    fds = inherited(drawing)
    drawing.close()
    assert drawn_elsewhere(NETWORK, *fds) is None
