"""Arrays that are locked for a device, by a driver that writes down what it is told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.backends.torch.page_locked import LEAST_BYTES, PageLocked

HOST = torch.device("cpu")
FLOATS = LEAST_BYTES // 4


class Driver:
    """Locks as CUDA's runtime does; refuses arrays of more bytes than `limit`."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self.limit = limit
        self.locked: dict[int, int] = {}
        self.before: set[int] = set()

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        assert flags == 1
        assert size
        assert address not in self.locked
        if address in self.before:
            return 712
        if size > self.limit:
            return 2
        self.locked[address] = size
        return 0

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802
        del self.locked[address]
        return 0


def test_each_array_is_locked_once_until_the_end() -> None:
    driver = Driver()
    locked = PageLocked(HOST, 8, driver)
    several = [np.zeros(size, np.float32) for size in (FLOATS, FLOATS + 5)]
    for array in (*several, *several, np.zeros(FLOATS - 1, np.float32)):
        locked.lock(array)
    assert driver.locked == {array.ctypes.data: array.nbytes for array in several}
    locked.close()
    assert not driver.locked
    locked.close()


def test_the_oldest_are_unlocked() -> None:
    driver = Driver()
    locked = PageLocked(HOST, 2, driver)
    several = [np.zeros(FLOATS, np.float32) for _ in range(3)]
    for array in several:
        locked.lock(array)
    assert set(driver.locked) == {array.ctypes.data for array in several[1:]}


def test_a_refusal_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    driver = Driver(limit=LEAST_BYTES)
    locked = PageLocked(HOST, 8, driver)
    small, large = (np.zeros(size, np.float32) for size in (FLOATS, FLOATS + 1))
    locked.lock(small)
    for _ in range(2):
        locked.lock(large)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "cpu: 65540 bytes cannot be locked into memory (CUDA error 2; `ulimit -l` may be the "
        "reason): copies to and from it are slower"
    ]
    locked.close()
    assert not driver.locked


def test_without_a_gpu_nothing_is_locked() -> None:
    locked = PageLocked(HOST, 8)
    locked.lock(np.zeros(FLOATS, np.float32))
    locked.close()


def test_what_another_has_locked_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    driver = Driver()
    locked = PageLocked(HOST, 8, driver)
    theirs, own = (np.zeros(FLOATS, np.float32) for _ in range(2))
    driver.before.add(theirs.ctypes.data)
    for array in (theirs, own):
        locked.lock(array)
    assert set(driver.locked) == {own.ctypes.data}
    assert not capsys.readouterr().err
    locked.close()
    assert not driver.locked
