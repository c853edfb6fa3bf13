from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from knltrain.communication.collectives import GroupSegment
from knltrain.communication.shared_memory import process_identity
from knltrain.errors import SegmentError

ParameterGroups = Callable[[int], list[GroupSegment]]


def test_ranks_see_who_is_there_and_who_has_left(segments: ParameterGroups) -> None:
    first, second = segments(2)
    assert first.holder(1) == process_identity.own_identity()
    assert not first.has_left(1)
    second.leave(1)
    second.leave(1)
    assert first.has_left(1)


def test_first_abort_stands(segments: ParameterGroups) -> None:
    first, second = segments(2)
    assert first.abort_code == 0
    second.abort(5)
    first.abort(7)
    assert first.abort_code == 5


def test_slot_has_memory_once_claimed_and_channels_have_none(segments: ParameterGroups) -> None:
    (segment,) = segments(1)
    used_bytes = os.fstat(segment.fd).st_blocks * 512
    assert segment.layout.channels <= used_bytes < segment.layout.total_bytes
    segment.claim_channel(0, 0)
    assert os.fstat(segment.fd).st_blocks * 512 >= segment.layout.total_bytes


def test_other_files_and_groups_of_other_sizes_are_refused(segments: ParameterGroups) -> None:
    first = segments(2)[0]
    other = os.memfd_create("other")
    os.write(other, bytes(24))
    for fd, ranks in ((other, 2), (first.fd, 3)):
        with pytest.raises(SegmentError, match=f"is no segment for {ranks} ranks"):
            GroupSegment.attach(fd, ranks)
    os.close(other)


def test_forked_process_does_not_leave_for_its_parent(segments: ParameterGroups) -> None:
    (segment,) = segments(1)
    child = os.fork()
    if not child:
        segment.leave(0)
        os._exit(0)
    os.waitpid(child, 0)
    assert not segment.has_left(0)
