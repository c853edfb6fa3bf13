"""Workers with periods and moving rates of their own."""

from __future__ import annotations

import pytest

from knltrain.assembly import build_method
from knltrain.assembly.paces import check_paces, with_own_pace
from knltrain.errors import ConfigError
from knltrain.exchange.transports.loopback import Loopback


def checked(config):
    check_paces(config, build_method(config, config.total_workers))


@pytest.mark.parametrize("method", ["seasgd", "easgd", "hogwild_easgd", "async_measgd"])
def test_workers_that_come_alone_may_have_both(config, method):
    paces = {"balance__periods": [1, 4], "balance__moving_rates": [0.2, 0.4]}
    checked(config(workers=2, exchange__method=method, **paces))
    checked(config(workers=2, exchange__method=method, balance__periods="by_speed"))


@pytest.mark.parametrize(
    "method", ["sync_easgd", "sync_sgd", "none", "original_easgd", "shmcaffe_h"]
)
def test_workers_that_exchange_together_have_none(config, method):
    with pytest.raises(ConfigError, match=rf"balance.periods = 'by_speed' with {method}: its wor"):
        checked(config(workers=4, exchange__method=method, balance__periods="by_speed"))


def test_each_worker_has_one(config):
    given = {"workers": 2, "exchange__method": "seasgd"}
    with pytest.raises(ConfigError, match=r"balance.periods = \[3\]: .* each of the 2 workers"):
        checked(config(**given, balance__periods=[3]))
    with pytest.raises(ConfigError, match=r"balance.moving_rates = \[0.1, 0.2, 0.3\]: .*are 3"):
        checked(config(**given, balance__moving_rates=[0.1, 0.2, 0.3]))


def test_moving_rates_are_of_elastic_methods(config):
    with pytest.raises(ConfigError, match="with downpour, which has no moving rate"):
        checked(config(workers=1, exchange__method="downpour", balance__moving_rates=[0.1]))


def test_a_worker_gets_its_own(config, tmp_path):
    chosen = config(
        workers=1, exchange__method="seasgd", balance__periods=[7], balance__moving_rates=[0.3]
    )
    own = with_own_pace(chosen, Loopback(8), (), 1, tmp_path).exchange
    assert (own.communication_period, own.moving_rate) == (7, 0.3)
    method = build_method(chosen.model_copy(update={"exchange": own}), 1)
    assert (method.period, method.rule.moving_rate) == (7, 0.3)


def test_a_built_worker_goes_by_its_own(config, make_worker, tmp_path):
    paces = {"balance__periods": [5], "balance__moving_rates": [0.3]}
    with make_worker(config(workers=1, exchange__method="seasgd", **paces), tmp_path) as worker:
        method = worker.strategy.method
        assert (method.period, method.rule.moving_rate) == (5, 0.3)


def test_shares_that_make_steps_alike_leave_no_speeds(config):
    both = {"balance__periods": "by_speed", "balance__shares": "fitted"}
    with pytest.raises(ConfigError, match="with shares that are fitted or replayed"):
        checked(config(workers=2, exchange__method="seasgd", **both))


def test_a_resumed_run_keeps_its_periods(config, tmp_path):
    (tmp_path / "periods.csv").write_text("rank,communication_period,step_seconds\n0,17,0.1\n")
    chosen = config(workers=1, exchange__method="easgd", balance__periods="by_speed")
    assert with_own_pace(chosen, Loopback(8), (), 1, tmp_path).exchange.communication_period == 17


def test_the_file_of_rank_0_counts(config, tmp_path, in_threads):
    """Other nodes may have no file, or another one."""
    chosen = config(workers=2, exchange__method="easgd", balance__periods="by_speed")
    rows = "rank,communication_period,step_seconds\n0,17,0.1\n1,34,0.05\n"
    for rank, text in enumerate((rows, "another")):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "periods.csv").write_text(text)
    found = in_threads(
        8, 2, lambda team: with_own_pace(chosen, team, (), 1, tmp_path / str(team.rank)).exchange
    )
    assert [own.communication_period for own in found] == [17, 34]


def test_periods_by_speed_are_written_down(config, tmp_path):
    chosen = config(
        workers=1, exchange__method="easgd", exchange__communication_period=3,
        balance__periods="by_speed",
    )  # fmt: skip
    own = with_own_pace(chosen, Loopback(8), (), 1, tmp_path).exchange
    assert own.communication_period == 3
    head, row = (tmp_path / "periods.csv").read_text().splitlines()
    assert head == "rank,communication_period,step_seconds"
    assert row.startswith("0,3,")
