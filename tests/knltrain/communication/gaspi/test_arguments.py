"""What is given is checked when it is given, and the error says what it is."""

import numpy as np
import pytest

from knltrain.communication.gaspi.arguments import as_bytes, seconds, whole
from knltrain.errors import CollectiveError


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_a_whole_number_of_any_type_is_an_int(value):
    assert whole("here", "k", value, (3, 3)) == 3


@pytest.mark.parametrize("value", [2, 5, 3.0, "3", None, float("nan"), 2**70])
def test_what_is_no_whole_number_within_the_limits_is_named(value):
    with pytest.raises(CollectiveError) as raised:
        whole("here", "k", value, (3, 4), " of it; ask")
    assert str(raised.value) == f"here: k={value!r} of it: expected 3 to 4, a whole number; ask"


@pytest.mark.parametrize("value", [0, 0.5, float("inf"), np.float32(2), np.int64(3)])
def test_a_time_limit_is_a_number_of_seconds(value):
    assert seconds(value) == float(value)


@pytest.mark.parametrize("value", [-1, float("nan"), np.float64("nan"), None, "1", 1j])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(CollectiveError, match=r"limit=.*: expected a number of seconds, 0 or more"):
        seconds(value, "limit")


def test_bytes_are_those_of_the_array_itself():
    values = np.zeros((2, 3), np.int32)
    as_bytes(values, is_written=True)[-1] = 1
    assert values[1, 2] == 2**24


def test_what_has_no_bytes_to_give_or_to_write_is_refused():
    constant = np.ones(2)
    constant.flags.writeable = False
    assert as_bytes(constant).size == 16
    with pytest.raises(CollectiveError, match=r"shape \(2,\) is read-only"):
        as_bytes(constant, is_written=True)
    with pytest.raises(CollectiveError, match="expected a contiguous array"):
        as_bytes(np.ones((2, 2)).T)
    with pytest.raises(CollectiveError, match="data of type object"):
        as_bytes(np.array([None]))
