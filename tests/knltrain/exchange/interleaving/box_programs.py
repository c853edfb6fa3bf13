"""What processes do with a Soft Memory Box, and what must come of it in every interleaving."""

from __future__ import annotations

import numpy as np
from interleaving.boxes import SIZE, Program

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox

NEXT_KEY = 9
"""Of the buffer that is made when there were two, in the first slot."""


def filled(value: float) -> np.ndarray:
    return np.full(SIZE, value, np.float32)


def content(buffer: Buffer) -> list[float]:
    found = filled(np.nan)
    buffer.read(found)
    return found.tolist()


def accumulates(number: int) -> Program:
    def program(_box: SoftMemoryBox, buffers: list[Buffer]) -> None:
        buffers[number].write(filled(number))
        buffers[0].accumulate(buffers[number])

    return program


def only_accumulates(_box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].accumulate(buffers[1])


def notifies(_box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].write(filled(5))
    for _ in range(2):
        buffers[0].notify(0)


def waits(_box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    times = buffers[0].wait(0)
    assert content(buffers[0]) == filled(5).tolist()
    if times < 2:
        times += buffers[0].wait(0)
    assert times == 2


def makes(box: SoftMemoryBox, _buffers: list[Buffer]) -> None:
    own = box.create_buffer(SIZE)
    assert content(own) == filled(0).tolist(), "not empty"
    own.write(filled(1))


def makes_and_frees(box: SoftMemoryBox, _buffers: list[Buffer]) -> None:
    makes(box, [])
    own = box.create_buffer(SIZE)
    own.write(filled(2))
    own.free()


def frees(_box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].free()


def frees_and_makes(box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].free()
    box.create_buffer(SIZE).accumulate(buffers[1])


def frees_and_finds_the_next_empty(box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].free()
    makes(box, [])


def frees_and_comes_to_the_next(box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].free()
    box.open(NEXT_KEY).accumulate(buffers[1])


def frees_for_another_kind(box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    buffers[0].free()
    assert box.create_buffer(1, np.int64).size == 1


def opens(box: SoftMemoryBox, buffers: list[Buffer]) -> None:
    opened = box.open(buffers[0].key)
    assert (opened.size, opened.dtype) == (SIZE, np.float32), "opened another"
    opened.scale(2.0)
