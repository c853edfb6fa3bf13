"""The tables of packages that import on demand name what their modules offer."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from vectorized_ops.on_demand import found_in, on_demand

ROOMS = ("vectorized_ops.shapes", "knltrain.network.layers", "knltrain.backends.cpu.stages")


@pytest.mark.parametrize("room", ROOMS)
def test_modules_are_those_that_types_know_and_no_name_is_in_two(room: str) -> None:
    package = import_module(room)
    for_types = re.findall(rf"from {room}\.(\w+) import \*", Path(package.__file__).read_text())
    assert sorted(package._MODULES) == for_types
    assert len({*package.__all__}) == len(package.__all__)


def test_modules_behind_that_of_the_name_are_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("decoder", "scanner"):
        monkeypatch.delitem(sys.modules, f"json.{module}", raising=False)
    monkeypatch.delattr("json.JSONDecoder")
    find = found_in("json", ("decoder", "scanner"))
    assert find("JSONDecoder") is sys.modules["json.decoder"].JSONDecoder
    for name in ("decode", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module 'json' has no attribute '{name}'"):
            find(name)


def test_only_the_module_of_the_name_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)
    find = on_demand("json", {"encoder": ("JSONEncoder",), "tool": ("main",)})
    assert find("JSONEncoder") is sys.modules["json.encoder"].JSONEncoder
    assert "json.tool" not in sys.modules
    with pytest.raises(AttributeError, match=r"module 'json' has no attribute 'decode'"):
        find("decode")
