"""The tables of packages that import on demand name what their modules offer."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from vectorized_ops.on_demand import on_demand

ROOMS = ("vectorized_ops.shapes", "knltrain.network.layers", "knltrain.backends.cpu.stages")


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_those_that_the_modules_offer(room: str) -> None:
    package = import_module(room)
    for module, names in package._NAMES.items():
        assert sorted(import_module(f"{room}.{module}").__all__) == sorted(names)


def test_only_the_module_of_the_name_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)
    find = on_demand("json", {"encoder": ("JSONEncoder",), "tool": ("main",)})
    assert find("JSONEncoder") is sys.modules["json.encoder"].JSONEncoder
    assert "json.tool" not in sys.modules
    with pytest.raises(AttributeError, match=r"module 'json' has no attribute 'decode'"):
        find("decode")
