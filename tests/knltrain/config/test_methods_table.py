from __future__ import annotations

import json

from knltrain.config.methods import METHODS
from knltrain.config.methods_table import format_table, listed


def test_all_methods_are_listed_in_their_order() -> None:
    assert [method["name"] for method in listed()] == list(METHODS)
    assert json.loads(json.dumps(listed())) == listed()


def test_settings_are_told_by_the_keys_of_a_configuration() -> None:
    (found,) = [method for method in listed() if method["name"] == "mdownpour"]
    assert found["settings"] == {
        "exchange.center_momentum": 0.99,
        "exchange.center_nesterov": True,
        "optimizer.momentum": 0.0,
    }


def test_table_has_two_lines_for_each_method() -> None:
    lines = format_table(listed()).splitlines()
    assert len(lines) == 2 + 2 * len(METHODS)
    assert "exchange.center_nesterov = true" in format_table(listed())
    assert 'exchange.termination = "average"' in format_table(listed())
