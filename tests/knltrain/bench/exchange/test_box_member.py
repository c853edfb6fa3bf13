"""Work on a box."""

import os

import numpy as np
import pytest

from knltrain.bench.exchange.box_member import BoxMember
from knltrain.communication.memory_box.local import SoftMemoryBox


@pytest.fixture
def shared():
    with SoftMemoryBox.create(2**20, "memfd") as box:
        yield box, box.create_buffer(1000)


def test_reads_the_shared_buffer_writes_its_own_and_accumulates(shared):
    box, center = shared
    held = BoxMember().hold([1000], [(os.dup(box.fd), center.key)])
    held.check()
    center.write(np.full(1000, 2, np.float32))
    held.operations["read_write"]()
    held.operations["accumulate"]()
    found = np.zeros(1000, np.float32)
    center.read(found)
    assert np.all(found == 4)
    held.meet()
    held.close()
