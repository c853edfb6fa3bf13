"""From [balance] to the shares of workers, their backends, and their observers."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.assembly import build_method, build_network
from knltrain.assembly.balancing import (
    Balance,
    balances,
    build_balanced_backend,
    check_balance,
    first_balance,
)
from knltrain.backends.growing import GrowingBackend
from knltrain.backends.paced import PacedBackend
from knltrain.errors import ConfigError
from knltrain.exchange.transports.loopback import Loopback
from knltrain.worker.balancing import FittingObserver, ReplayingObserver


def test_images_of_each_before_any_are_fitted(config):
    assert config(workers=2).images_of_each == (8, 8)
    assert config(workers=2, balance__shares=[12, 4]).images_of_each == (12, 4)
    assert config(workers=3, balance__shares="fitted").images_of_each == (6, 5, 5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"placement__data_cores": 1}, "with placement.data_cores = 1: a data pool"),
        ({"data__memory": "distributed"}, "with data.memory = 'distributed'"),
    ],
)
def test_shares_that_change_are_refused_where_batches_are_made_ahead(config, changes, told):
    with pytest.raises(ConfigError, match=f"balance.shares = 'fitted' {told}"):
        checked(config(workers=2, balance__shares="fitted", **changes))
    checked(config(workers=2, balance__shares=[12, 4], **changes))


def checked(config):
    check_balance(config, build_method(config, config.total_workers))


@pytest.mark.parametrize("method", ["sync_easgd", "local_sgd", "none", "downpour", "shmcaffe_h"])
def test_who_idles_must_not_count(config, tmp_path, method):
    of_all = {"workers": 4, "exchange__method": method}
    with pytest.raises(ConfigError, match=rf"\[16, 0, 0, 0\] with {method}: a worker without"):
        checked(config(**of_all, balance__shares=[16, 0, 0, 0]))
    path = tmp_path / "shares.csv"
    names = ",".join(f"{kind}_{rank}" for kind in ("images", "seconds") for rank in range(4))
    path.write_text(f"step,{names}\n0,8,8,0,0,0,0,0,0\n")
    with pytest.raises(ConfigError, match="has workers without images, which would count"):
        checked(config(**of_all, balance__replay=str(path)))
    checked(config(workers=4, exchange__method="sync_sgd", balance__replay=str(path)))


def test_shares_that_begin_later_than_the_run_are_refused(config, tmp_path):
    path = tmp_path / "shares.csv"
    path.write_text("step,images_0,images_1,seconds_0,seconds_1\n3,12,4,0,0\n")
    chosen = {"workers": 2, "balance__replay": str(path)}
    with pytest.raises(ConfigError, match="begins with step 3, this run with 0"):
        checked(config(**chosen))
    checked(config(**chosen, train__first_step=4))


def test_a_file_to_replay_is_read_before_anything_starts(config, tmp_path):
    with pytest.raises(ConfigError, match=r"balance\.replay = '.*none\.csv': cannot be read"):
        checked(config(workers=2, balance__replay=str(tmp_path / "none.csv")))


def test_shares_of_workers_that_are_steps_apart_do_not_change(config, tmp_path):
    path = tmp_path / "shares.csv"
    path.write_text("step,images_0,images_1,seconds_0,seconds_1\n0,12,4,0,0\n7,10,6,0,0\n")
    chosen = {"workers": 2, "balance__replay": str(path)}
    with pytest.raises(ConfigError, match="has 2 rows, but with downpour workers are steps apart"):
        checked(config(**chosen, exchange__method="downpour"))
    checked(config(**chosen, exchange__method="sync_easgd"))


def test_a_batch_has_an_image_for_each_who_may_not_idle(config):
    chosen = {"workers": 3, "train__batch": 2, "balance__shares": "fitted"}
    with pytest.raises(ConfigError, match=r"train\.batch = 2 with 3 workers: expected an image"):
        checked(config(**chosen, exchange__method="sync_easgd"))
    checked(config(**chosen, exchange__method="sync_sgd"))


def test_fitted_shares_of_one_worker_are_the_batch(config):
    chosen = config(workers=1, balance__shares="fitted", balance__granule=4)
    found = first_balance(chosen, Loopback(1), build_method(chosen, 1), (), 1)
    assert found.shares == (16,)
    assert found.costs[0].of(16) > 0


@pytest.mark.slow
def test_emulated_speeds_decide_fitted_shares(config, in_threads):
    chosen = config(
        workers=2,
        balance__shares="fitted",
        balance__granule=2,
        balance__emulated_images_per_second=[20, 60],
    )
    method = build_method(chosen, 2)
    found = in_threads(1, 2, lambda team: first_balance(chosen, team, method, (), 1))
    assert found[0] == found[1]
    fewer, more = found[0].shares  # (4, 12), but for noise
    assert fewer < more
    assert fewer + more == 16


def test_a_backend_grows_where_shares_may_change_alone(config):
    network = build_network(config())
    plain = build_balanced_backend(config(), network, 8, 1, 0)
    assert not isinstance(plain, (GrowingBackend, PacedBackend))
    chosen = config(
        backend__name="cpu", balance__shares="fitted", balance__emulated_images_per_second=[10]
    )
    paced = build_balanced_backend(chosen, network, 0, 1, 0)
    assert isinstance(paced, PacedBackend)
    assert isinstance(paced._backend, GrowingBackend)
    for backend in (plain, paced):
        backend.close()


def test_observers_are_those_of_the_table(config, tmp_path):
    def made(balance=None, method="sync_sgd", **changes):
        chosen = config(workers=2, exchange__method=method, **changes)
        return balances(chosen, tmp_path, balance or Balance((8, 8)), build_method(chosen, 2))

    assert made() == []
    (fixed,) = made(balance__shares=[12, 4])
    assert isinstance(fixed, FittingObserver)
    assert not fixed.is_due(0, 1000)
    (fitted,) = made(balance__shares="fitted")
    assert fitted.is_due(49, 50)
    assert not fitted.is_due(50, 99)
    (alone,) = made(balance__shares="fitted", method="downpour")
    assert not alone.is_due(0, 1000)  # its workers do not wait for each other's gradient
    np.testing.assert_array_equal(fixed.shares, (8, 8))


def test_a_replay_has_an_observer_of_its_own(config, tmp_path):
    path = tmp_path / "shares.csv"
    path.write_text("step,images_0,images_1,seconds_0,seconds_1\n0,12,4,0,0\n7,10,6,0,0\n")
    chosen = config(workers=2, balance__replay=str(path))
    balance = first_balance(chosen, Loopback(1), build_method(chosen, 2), (), 1)
    assert balance.shares == (12, 4)
    (observer,) = balances(chosen, tmp_path, balance, build_method(chosen, 2))
    assert isinstance(observer, ReplayingObserver)
    assert observer.is_due(6, 7)
