from __future__ import annotations

import pytest

from knltrain.assembly import OPTIMIZERS
from knltrain.profile.costs import total_of, update_costs


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_step_of_every_optimizer_has_its_costs(name: str) -> None:
    """Parameters and each vector of state are read and written, and the gradient is read."""
    vectors = {"adam": 2, "adamw": 2, "adadelta": 2}.get(name, 1)
    norms = 2 if name == "lars" else 0
    costs = update_costs(name, {"conv": 10, "bn": 4})
    assert costs["conv"].moved_bytes == 4 * 10 * (3 + 2 * vectors + norms)
    assert costs["bn"].flops * 10 == costs["conv"].flops * 4 > 0
    assert total_of(costs.values()) == update_costs(name, {"all": 14})["all"]
