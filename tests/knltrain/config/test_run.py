"""What the tables of a run must agree on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.config import RunConfig, with_workers
from knltrain.config.exchange_table import ExchangeConfig
from knltrain.errors import ConfigError

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


@pytest.mark.parametrize(("batch", "fitting"), [(65, 63), (2, 3)])
def test_batch_that_workers_cannot_share_is_refused(
    batch: int, fitting: int, refusal: Refusal
) -> None:
    message = refusal("workers=3", f"train.batch={batch}")
    assert f"train.batch = {batch} images do not divide evenly among 3 workers" in message
    assert f"such as {fitting}, or balance.shares" in message


def test_workers_decided_later_are_checked_like_given_ones(load: Load) -> None:
    config = load("exchange.moving_rate=0.5")
    assert with_workers(config, 2).workers == 2
    with pytest.raises(ConfigError, match="64 images do not divide evenly among 3 workers"):
        with_workers(config, 3)


def test_method_says_what_its_tables_begin_with(load: Load) -> None:
    config = load("exchange.method=mdownpour")
    assert (config.exchange.center_momentum, config.exchange.center_nesterov) == (0.99, True)
    assert config.optimizer.momentum == 0.0
    assert load("exchange.method=easgd").exchange.communication_period == 10
    assert load("exchange.method=sync_easgd").optimizer.momentum == 0.9


def test_what_is_given_stands_before_what_the_method_says(load: Load) -> None:
    config = load(
        "exchange.method=eamsgd", "exchange.communication_period=3", "optimizer.momentum=0.5"
    )
    assert (config.exchange.communication_period, config.optimizer.momentum) == (3, 0.5)


def test_table_that_was_made_before_gets_what_the_method_begins_with(load: Load) -> None:
    tables = load().model_dump()
    tables["exchange"] = ExchangeConfig(method="easgd")
    tables["optimizer"] = {"weight_decay": 0.1}
    config = RunConfig.model_validate(tables)
    assert (config.exchange.communication_period, config.optimizer.momentum) == (10, 0.0)
    assert config.optimizer.weight_decay == 0.1


def test_name_of_a_method_that_is_no_name_is_refused(refusal: Refusal) -> None:
    assert "exchange.method" in refusal('exchange.method=["easgd"]')


def test_momentum_of_the_center_is_refused_where_nobody_pushes(refusal: Refusal) -> None:
    message = refusal("exchange.method=async_easgd", "exchange.center_momentum=0.9")
    assert "exchange.center_momentum = 0.9 is read by async_sgd, async_msgd, " in message
    assert message.endswith("not by async_easgd: leave it out")


def test_another_optimizer_is_not_given_what_sgd_begins_with(load: Load) -> None:
    config = load("exchange.method=async_easgd", "optimizer.name=adamw")
    assert config.optimizer.momentum is None


@pytest.mark.parametrize("rule", ["master", "fastest", "average"])
@pytest.mark.parametrize("method", ["async_easgd", "hogwild_sgd", "seasgd", "shmcaffe_h"])
def test_workers_that_come_at_any_time_may_end_together(load: Load, method: str, rule: str) -> None:
    config = load(f"exchange.method={method}", f"exchange.termination={rule}")
    assert config.exchange.termination == rule


@pytest.mark.parametrize("method", ["sync_easgd", "hierarchical_sgd", "original_easgd", "none"])
def test_workers_that_wait_for_each_other_end_each_by_itself(
    load: Load, refusal: Refusal, method: str
) -> None:
    assert load(f"exchange.method={method}").exchange.termination == "each"
    load(f"exchange.method={method}", "exchange.termination=each")
    message = refusal(f"exchange.method={method}", "exchange.termination=fastest")
    assert "exchange.termination = 'fastest' is for methods whose workers visit" in message
    assert message.endswith(f"not for {method}: leave it out, or set it to 'each'")


def test_seasgd_ends_by_the_average_unless_told_otherwise(load: Load) -> None:
    assert load("exchange.method=seasgd").exchange.termination == "average"
    given = load("exchange.method=seasgd", "exchange.termination=each")
    assert given.exchange.termination == "each"


def test_share_of_values_is_for_the_format_that_sends_the_largest(
    load: Load, refusal: Refusal
) -> None:
    chosen = load("exchange.wire_format=top_k", "exchange.wire_top_share=0.05").exchange
    assert (chosen.wire_format, chosen.wire_top_share) == ("top_k", 0.05)
    message = refusal("exchange.wire_format=int8", "exchange.wire_top_share=0.05")
    assert message.endswith(
        "exchange.wire_top_share = 0.05 is read by the wire format 'top_k', not by 'int8': "
        "leave it out"
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["exchange.method=seasgd"], "'seasgd', whose workers come when they are ready"),
        (
            ["exchange.method=hogwild_easgd"],
            "'hogwild_easgd', whose workers come when they",
        ),
        (["exchange.method=parameter_server"], "'parameter_server', whose workers come when they"),
        (["backend.tuning=full"], "backend.tuning = 'full', which measures times"),
        (["backend.micro_batch=auto"], "backend.micro_batch = 'auto'"),
        (
            ["balance.shares=fitted"],
            "'fitted', which measures times: expected numbers",
        ),
        (["balance.periods=by_speed"], "balance.periods = 'by_speed'"),
    ],
)
def test_what_depends_on_time_is_refused_where_bits_are_to_be_the_same(
    refusal: Refusal, settings: list[str], told: str
) -> None:
    message = refusal("train.deterministic=true", *settings)
    assert told in message
    assert "or deterministic = false" in message


@pytest.mark.parametrize(
    "method", ["sync_easgd3", "layerwise_sgd", "original_easgd", "diloco", "caffe_mpi"]
)
def test_methods_with_an_order_may_be_deterministic(load: Load, method: str) -> None:
    assert load("train.deterministic=true", f"exchange.method={method}").train.deterministic


@pytest.mark.parametrize("method", ["asgd", "seasgd"])
def test_one_worker_has_nobody_to_wait_for(load: Load, method: str) -> None:
    assert load("train.deterministic=true", "workers=1", f"exchange.method={method}")
