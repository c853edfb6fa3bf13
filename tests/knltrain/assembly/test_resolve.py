"""The number of workers and what follows from it."""

from __future__ import annotations

import pytest

from knltrain.assembly.resolve import group_size_of, resolve_workers, resolved
from knltrain.errors import ConfigError


@pytest.mark.parametrize(
    ("workers", "batch", "cores", "expected"),
    [
        ("auto", 64, 1, 1),
        ("auto", 64, 4, 4),
        ("auto", 64, 6, 4),
        ("auto", 64, 64, 4),
        ("auto", 960, 64, 60),
        ("auto", 7, 6, 1),
        (3, 60, 1, 3),
    ],
)
def test_number_of_workers(config, workers, batch, cores, expected):
    assert resolve_workers(config(workers=workers, train__batch=batch), cores) == expected


def test_workers_that_cannot_share_a_batch_never_get_here(config):
    with pytest.raises(ValueError, match="do not divide evenly among 3 workers"):
        config(workers=3)


def test_resolved_run_leaves_nothing_open(config):
    chosen = resolved(config(workers="auto", train__batch=64), most=2)
    assert (chosen.workers, chosen.exchange.moving_rate) == (2, pytest.approx(0.45))
    given = resolved(config(workers="auto", train__batch=64, exchange__moving_rate=0.1), 2)
    assert given.exchange.moving_rate == 0.1
    averaged = resolved(config(workers="auto", train__batch=64, exchange__method="sync_sgd"), 2)
    assert averaged.exchange.moving_rate is None


@pytest.mark.parametrize(("given", "size"), [(None, 4), (4, 4), (2, 2), (1, 1)])
def test_groups_that_come_alone_lie_within_a_computer(config, given, size):
    settings = {} if given is None else {"exchange__group_size": given}
    chosen = config(workers=4, nodes=2, exchange__method="shmcaffe_h", **settings)
    assert group_size_of(chosen, 8) == size
    assert resolved(chosen).exchange.group_size == size


@pytest.mark.parametrize("given", [3, 8])
def test_groups_that_would_lie_on_two_computers_are_refused(config, given):
    chosen = config(workers=4, nodes=2, exchange__method="shmcaffe_h", exchange__group_size=given)
    with pytest.raises(ConfigError, match=f"group_size = {given}.* 4 workers .* a divisor of 4"):
        group_size_of(chosen, 8)


def test_groups_that_meet_are_all_workers_of_a_computer(config):
    chosen = config(workers=4, nodes=2, exchange__method="hierarchical_sgd", exchange__group_size=2)
    with pytest.raises(ConfigError, match="on 2 computers the 4 workers of each are a group"):
        group_size_of(chosen, 8)
