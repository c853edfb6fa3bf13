from __future__ import annotations

import pytest

from knltrain.bench.nodes.link import link_gbytes_per_second
from knltrain.bench.step.peer_process import PeerError

from ...hosts import hosts_or_skip


@pytest.mark.slow
def test_link_carries_at_most_what_it_is_limited_to() -> None:
    with hosts_or_skip(2, gbits=2) as made:
        assert 0 < link_gbytes_per_second(made) < 0.26
        made.limit(0.5)
        assert 0 < link_gbytes_per_second(made, seconds=1.0) < 0.07
        made.cut_off(1)
        with pytest.raises(
            PeerError, match=r"could not be measured: .* timed out after 2\.0 seconds"
        ):
            link_gbytes_per_second(made, longest_seconds=2.0)


@pytest.mark.slow
def test_a_slow_link_is_measured_by_what_it_carries_in_a_while() -> None:
    with hosts_or_skip(2, gbits=0.02) as made:
        assert 0 < link_gbytes_per_second(made, seconds=1.0) < 1.1 * 0.02 / 8


def test_what_a_host_says_that_cannot_send_is_told() -> None:
    with hosts_or_skip(2) as made:
        made.addresses[0] = "192.0.2.1"
        with pytest.raises(PeerError, match="could not be measured: "):
            link_gbytes_per_second(made)
