"""Which buffers and arrays fit together."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.communication.memory_box.remote import PrivateBuffer
from knltrain.communication.memory_box.remote.vector import check_float, check_operand, check_part
from knltrain.errors import ExchangeTimeout, SegmentError

FLOAT, WHOLE = np.dtype(np.float32), np.dtype(np.int64)


def test_arrays_of_another_form_are_refused() -> None:
    buffer = PrivateBuffer(10, FLOAT, 1.0)
    check_part(buffer, np.zeros(10, np.float32), 0)
    with pytest.raises(SegmentError, match=r"got int64 of shape \(3,\), expected float32"):
        check_part(buffer, np.zeros(3, np.int64), 0)
    with pytest.raises(SegmentError, match=r"got float32 of shape \(2, 2\)"):
        check_part(buffer, np.zeros((2, 2), np.float32), 0)
    for offset in (-1, 1):
        with pytest.raises(SegmentError, match="are not all in a buffer of 10 elements"):
            check_part(buffer, np.zeros(10, np.float32), offset)


def test_buffers_of_another_form_are_refused() -> None:
    target = PrivateBuffer(10, FLOAT, 1.0)
    check_operand(target, PrivateBuffer(10, FLOAT, 1.0))
    for wrong in (target, PrivateBuffer(11, FLOAT, 1.0), PrivateBuffer(10, WHOLE, 1.0)):
        with pytest.raises(SegmentError, match="expected another one than the target, of 10"):
            check_operand(target, wrong)
    with pytest.raises(SegmentError, match="are for float32, accumulate for int64 too"):
        check_float(PrivateBuffer(10, WHOLE, 1.0))


def test_events_count_since_they_were_last_asked_for() -> None:
    buffer = PrivateBuffer(10, FLOAT, 0.05)
    for _ in range(3):
        buffer.notify(7)
    assert buffer.wait(7) == 3
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.05 s in vain for event 7"):
        buffer.wait(7)
    with pytest.raises(SegmentError, match="event 8: expected 0 to 7"):
        buffer.wait(8)
