from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from typing import Any

import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import IMPLEMENTATIONS, operations

MISSING = {
    "reference": {"pooled_convolution", "chosen", "prepare"},
    "numba": set(),
    "onednn": {
        "pooled_convolution",
        "local_response_normalisation",
        "dropout",
        "chosen",
        "prepare",
    },
}


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_implementation_is_found_in_its_own_package(name: str) -> None:
    found = operations(name)
    assert found.name == name
    borrowed = {"reference", name} if name == "onednn" else {name}  # it shares C order
    for field in fields(found):
        part = getattr(found, field.name)
        if callable(part):
            assert part.__module__.split(".")[1] in borrowed, field.name


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_operations_that_an_implementation_has_not_are_none(name: str) -> None:
    found = operations(name)
    missing = {field.name for field in fields(found) if getattr(found, field.name) is None}
    assert missing == MISSING[name]


def test_without_winograd_numba_convolves_by_direct_sums() -> None:
    direct, tuned = operations("numba", winograd=False), operations("numba")
    assert direct.convolution.__name__ == "Convolution"
    assert tuned.convolution.__name__ == "TunedConvolution"
    assert direct.pooled_convolution is not None
    assert tuned.pooled_convolution is not None
    shape = (16, 12, 12, 20), 16, 5
    assert direct.pooled_convolution(*shape).algorithm == "direct"
    assert tuned.pooled_convolution(*shape).algorithm == "winograd"


@pytest.mark.parametrize("name", [name for name in IMPLEMENTATIONS if name != "reference"])
def test_every_implementation_has_at_least_the_methods_of_the_reference(name: str) -> None:
    reference, found = operations("reference"), operations(name)
    for field in fields(found):
        part = getattr(found, field.name)
        if callable(part) and field.name not in MISSING["reference"]:
            expected = signatures(getattr(reference, field.name))
            offered = signatures(part)
            for method, named in expected.items():
                own = offered[method][len(named) :]
                assert offered[method][: len(named)] == named, (field.name, method)
                assert all(default is not inspect.Parameter.empty for _, default in own)


def signatures(part: Any) -> dict[str, list[tuple[str, Any]]]:
    """Names and defaults of the arguments of a function, or of a class's public methods."""
    if not inspect.isclass(part):
        return {"": arguments(part)}
    methods = inspect.getmembers(part, inspect.isfunction)
    return {
        method: arguments(function)
        for method, function in methods
        if method == "__init__" or not method.startswith("_")
    }


def arguments(function: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]


def test_fused_operation_has_a_definition_with_the_same_arguments() -> None:
    parts = [
        importlib.import_module(f"vectorized_ops.{name}.pooled_convolution").pooled_convolution
        for name in ("reference", "numba")
    ]
    assert signatures(parts[0]) == signatures(parts[1])


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperationError, match="'mkl': expected one of reference, numba, onednn"):
        operations("mkl")
