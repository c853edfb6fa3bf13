"""A center that workers visit; `test_transport` has what every such center promises."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.visited_center import Order, VisitedCenter
from vectorized_ops.reference import elastic


@pytest.mark.parametrize("order", get_args(Order))
def test_visit_is_an_exchange_of_one_worker_in_any_order(order: Order) -> None:
    center: VisitedCenter = Loopback(3)
    center.start_from(np.zeros(3, np.float32))
    center.local[:] = 4
    center.await_turn()
    center.visit(EASGD(0.25, elastic), np.zeros(3, np.float32), order)
    center.read_center()
    assert (center.local.tolist(), center.center.tolist()) == ([3.0] * 3, [1.0] * 3)
    center.close()
