"""Bytes that come and go in several pieces."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from knltrain.input.distributed.client import receive_all, send_all


@pytest.mark.parametrize("sizes", [[0], [1], [3, 0, 5], [1] * 2000, [100_000, 1, 400_000]])
def test_buffers_arrive_as_they_were(sizes: list[int]) -> None:
    random = np.random.default_rng(1)
    sent = [random.bytes(size) for size in sizes]
    found = [bytearray(size) for size in sizes]
    one, other = socket.socketpair()
    with one, other:
        given = one, [memoryview(each) for each in sent]
        sending = threading.Thread(target=send_all, args=given)
        sending.start()
        receive_all(other, [memoryview(each) for each in found])
        sending.join()
    assert [bytes(each) for each in found] == sent


def test_a_connection_that_ends_early_is_told() -> None:
    one, other = socket.socketpair()
    with other:
        one.sendall(b"ab")
        one.close()
        with pytest.raises(EOFError, match="ended"):
            receive_all(other, [memoryview(bytearray(1)), memoryview(bytearray(2))])
