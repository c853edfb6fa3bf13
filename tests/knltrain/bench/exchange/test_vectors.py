"""Vectors that crews are to hold."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from knltrain.bench.exchange.vectors import Vectors
from knltrain.communication.memory_box.local import SoftMemoryBox
from knltrain.errors import SegmentError
from knltrain.exchange.transports.segment import Segment


class Listener:
    """A crew that notes what it is told."""

    def __init__(self, name):
        self.name, self.told = name, []

    def hold(self, name, sizes, handles):
        self.told.append((name, sizes, list(handles)))

    def drop(self, name):
        self.told.append(name)


def shared_memory_pages():
    return int(re.search(r"Shmem:\s*(\d+)", Path("/proc/meminfo").read_text())[1])


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_our_crews_get_what_they_can_open_and_libraries_sizes_alone():
    vectors = Vectors([1000], 2, box=True)
    segment, box, gloo = (Listener(name) for name in ("segment", "box", "gloo"))
    vectors.held_by([segment, box, gloo])
    assert gloo.told == [(vectors.name, [1000], [])]
    (_, _, (fd,)), ((box_fd, key),) = segment.told[0], box.told[0][2]
    assert {fd, box_fd} == set(vectors.fds)
    opened = Segment.attach(os.dup(fd))
    assert (opened.size, opened.workers) == (1000, 2)
    opened.close()
    with SoftMemoryBox.attach(os.dup(box_fd)) as same:
        assert same.open(key).size == 1000
        same.create_buffer(1000), same.create_buffer(1000)
    vectors.dropped_by([segment, box, gloo])
    assert gloo.told[-1] == vectors.name
    assert all(fd < 0 for fd in vectors.fds)


def test_without_a_box_its_crew_is_not_asked():
    vectors = Vectors([10, 20, 30], 3)
    box = Listener("box")
    vectors.held_by([box])
    vectors.dropped_by([box])
    assert box.told == []
    assert (vectors.bytes, vectors.name) == (240, "3 of 60")


def test_files_take_no_memory_before_they_are_held():
    descriptors = open_files()
    before = shared_memory_pages()
    vectors = Vectors([25_000_000], 2, box=True)
    assert shared_memory_pages() - before < 50_000  # of 500,000 kB
    vectors.close()
    vectors.close()
    assert open_files() == descriptors


def test_vectors_that_cannot_be_leave_no_file_open():
    descriptors = open_files()
    with pytest.raises(SegmentError, match="bytes of shared memory"):
        Vectors([10, np.iinfo(np.int64).max // 100], 2)
    assert open_files() == descriptors
