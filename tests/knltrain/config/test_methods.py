from __future__ import annotations

import pytest

from knltrain.config.exchange_table import ExchangeConfig
from knltrain.config.methods import METHODS, OPTIONS, MethodFacts
from knltrain.config.optimizer_tables import OptimizerConfig

EVERY = [pytest.param(facts, id=name) for name, facts in METHODS.items()]


@pytest.mark.parametrize("facts", EVERY)
def test_method_begins_with_settings_that_their_tables_accept(facts: MethodFacts) -> None:
    exchange = ExchangeConfig(method=facts.name, **facts.exchange)
    optimizer = OptimizerConfig(**facts.optimizer)
    for table, values in ((exchange, facts.exchange), (optimizer, facts.optimizer)):
        assert {key: getattr(table, key) for key in values} == dict(values)


@pytest.mark.parametrize("facts", EVERY)
def test_equation_of_a_method_that_pulls_has_the_moving_rate(facts: MethodFacts) -> None:
    elastic = "moving_rate" in facts.reads
    assert ("α" in facts.equation or "seasgd" in facts.equation) == elastic


@pytest.mark.parametrize("facts", EVERY)
def test_method_reads_what_it_begins_with(facts: MethodFacts) -> None:
    assert {key for key in facts.exchange if key in OPTIONS} <= set(facts.reads)
    assert set(OPTIONS) < set(ExchangeConfig.model_fields)
