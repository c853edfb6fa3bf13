from __future__ import annotations

import gc
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from vectorized_ops.torch import _looks as looks
from vectorized_ops.torch._snapshots import weakly


def test_attributes_are_those_that_the_module_has_now() -> None:
    model: Any = nn.Linear(2, 2, bias=False)
    look = weakly(model)
    model.child = nn.ReLU()
    assert looks.attribute(look, "in_features") == 2
    assert looks.attribute(look, "weight") == "_parameters"
    assert looks.attribute(look, "child") == "_modules"
    assert looks.attribute(look, "bias") is None
    assert looks.attribute(look, "nothing") == looks.MISSING
    assert looks.tensor((look, "weight")) is model.weight
    assert looks.tensor_property(lambda: model.weight, "requires_grad") is True
    assert looks.tensor_property(lambda: model.weight, "size", (0,)) == 2
    assert looks.registered(look, "_parameters") == (("weight", False), ("bias", True))
    assert looks.own_attributes(look) == {"in_features": 2, "out_features": 2}
    other = nn.Linear(2, 2)
    assert not looks.are_one([(look, "weight"), (weakly(other), "weight")])
    other.weight = model.weight
    assert looks.are_one([(look, "weight"), (weakly(other), "weight")])


def test_what_is_gone_is_missing() -> None:
    model = nn.Linear(2, 2)
    look = weakly(model)
    del model
    gc.collect()
    assert looks.attribute(look, "weight") == looks.MISSING
    assert looks.tensor((look, "weight")) == looks.MISSING
    assert looks.own_attributes(look) == {}
    assert looks.registered(look, "_parameters") == ()


def test_variables_are_looked_up_in_the_function() -> None:
    value = 1

    def function() -> int:
        return value

    look = weakly(function)
    assert looks.variable(look, 0) == 1
    value = 2
    assert looks.variable(look, 0) == 2
    del function
    gc.collect()
    assert looks.variable(look, 0) == looks.MISSING


def test_globals_are_found_by_names_without_asking_objects() -> None:
    names = {"np": np, "here": SimpleNamespace(a=1), "Tensor": torch.Tensor, "torch": torch}
    assert looks.looked_up(names, ["here", "a"]) == 1
    assert looks.looked_up(names, ["len"]) is len
    assert looks.global_of(names, ("np", "pi")) == np.pi
    assert looks.global_of(names, ("here", "a")) == looks.MISSING
    assert looks.is_tensor_class(names, ("torch", "Tensor"))
    assert not looks.is_tensor_class(names, ("torch", "nn"))


def importing() -> Any:
    import json

    import program.part as part  # type: ignore[import-not-found]
    from program import factor  # type: ignore[import-not-found]

    return json, part, factor


def test_imports_inside_of_functions_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looks.imports_in(importing.__code__, "")
    assert found == [("program.part", ()), ("program", ("factor",))]
    module: Any = ModuleType("program")
    module.factor, module.other = 2.0, print
    monkeypatch.setitem(sys.modules, "program", module)
    assert looks.imported("program", "factor") == 2.0
    assert looks.imported("absent", "factor") == looks.MISSING
    assert looks.imported_data("program") == [{"factor": 2.0}]
