from __future__ import annotations

import os

import pytest

from knltrain.errors import SegmentError
from knltrain.exchange.address import Doorkeeper, fd_behind


def test_descriptor_behind_an_address_is_that_of_the_same_file() -> None:
    fd = os.memfd_create("shared")
    door = Doorkeeper(fd)
    other = fd_behind(door.address)
    assert not os.get_inheritable(other)
    os.write(fd, b"hello")
    assert os.pread(other, 5, 0) == b"hello"
    door.close()
    os.close(fd)
    os.close(other)


def test_closed_door_and_unknown_address_are_told() -> None:
    fd = os.memfd_create("shared")
    door = Doorkeeper(fd)
    door.close()
    os.close(fd)
    for address in (door.address, "knltrain-memory-nobody"):
        with pytest.raises(SegmentError, match=f"no shared memory at address '{address}'"):
            fd_behind(address)
