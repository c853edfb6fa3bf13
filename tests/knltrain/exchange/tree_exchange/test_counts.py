"""Counts keep the last value that came, whatever came before it."""

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.exchange.tree_exchange.counts import NotificationCounts


def test_counts_begin_at_0_and_keep_the_last_value_until_another_comes():
    space = AddressSpace(thread_ranks(1)[0])
    segment = space.create_segment(0, 3)
    counts = NotificationCounts(segment, 2)
    assert not counts.look()
    for value in (4, 6):
        segment.notify(0, 1, value)
    segment.notify(0, 2, 9)  # none of those that are counted
    space.wait()
    assert counts.look() and not counts.look()
    assert (counts[0], counts[1]) == (0, 6)
    segment.notify(0, 1, 7)
    space.wait()
    assert counts.look()
    assert (counts[0], counts[1]) == (0, 7)
    space.close()
