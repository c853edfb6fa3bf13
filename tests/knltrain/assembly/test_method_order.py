from __future__ import annotations

import pytest

from knltrain.assembly.factories import reference_kernels
from knltrain.assembly.method_order import (
    MethodContext,
    groups_of,
    mean_rule,
    on_gradients,
    on_parameters,
)
from knltrain.errors import ConfigError
from knltrain.network.zoo.lenet import lenet


@pytest.fixture
def order(config):
    """order(workers, key=value...): for a method with these settings of the exchange."""

    def made(workers, **exchange):
        chosen = config(**{f"exchange__{key}": value for key, value in exchange.items()})
        return MethodContext(chosen, workers, lenet(), reference_kernels(), lambda _step: 0.1)

    return made


def test_methods_meet_as_their_facts_and_settings_say(order):
    made = order(3, method="local_sgd", communication_period=5)
    method = on_parameters(made, mean_rule(made), after="step")
    assert (method.name, method.moves, method.period) == ("local_sgd", "parameters", 5)
    assert (method.schedule, method.after, method.rule.workers) == ("synchronous", "step", 3)
    assert on_gradients(made, mean_rule(made), period=1).moves == "gradient"


@pytest.mark.parametrize(
    ("workers", "size", "groups"),
    [(8, None, (4, 2)), (9, None, (3, 3)), (7, None, (1, 7)), (8, 2, (2, 4))],
)
def test_groups_have_equal_sizes(order, workers, size, groups):
    settings = {} if size is None else {"group_size": size}
    assert groups_of(order(workers, method="shmcaffe_h", **settings)) == groups


@pytest.mark.parametrize(("workers", "size"), [(1, None), (4, 3), (2, 4)])
def test_groups_that_do_not_come_out_are_refused(order, workers, size):
    settings = {} if size is None else {"group_size": size}
    with pytest.raises(ConfigError, match="expected"):
        groups_of(order(workers, method="shmcaffe_h", **settings))
