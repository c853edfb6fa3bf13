from __future__ import annotations

import pytest

from knltrain.bench.nodes.link import link_gbytes_per_second
from knltrain.bench.peer_process import PeerError

from ...hosts import hosts_or_skip


def test_link_carries_at_most_what_it_was_given() -> None:
    with hosts_or_skip(2, gbits=2) as made:
        assert 0.05 < link_gbytes_per_second(made) < 0.26
        made.cut_off(1)
        with pytest.raises(PeerError, match="the link between the hosts could not be measured"):
            link_gbytes_per_second(made, longest_seconds=2.0)
