from __future__ import annotations

import pytest

from knltrain.distributed_ops import Machine
from knltrain.errors import ConfigError


@pytest.mark.parametrize("figures", [(0, 1), (1, -1), (1, 1, 0), (1, 1, 1, -1e-6)])
def test_figures_that_cannot_be_are_refused(figures: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="expected figures above zero"):
        Machine(*figures)


def test_this_machine_is_measured() -> None:
    machine = Machine.measured()
    assert machine.flops_per_second > 1e8
    assert machine.memory_bytes_per_second > 1e7
    assert machine.network_bytes_per_second is None
