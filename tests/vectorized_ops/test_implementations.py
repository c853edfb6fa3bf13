from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from typing import Any

import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import IMPLEMENTATIONS, operations


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_implementation_is_found_in_its_own_package(name: str) -> None:
    found = operations(name)
    assert found.name == name
    borrowed = {"reference", name} if name == "onednn" else {name}  # it shares C order
    for field in fields(found):
        part = getattr(found, field.name)
        if callable(part):
            assert part.__module__.split(".")[1] in borrowed, field.name


@pytest.mark.parametrize("name", [name for name in IMPLEMENTATIONS if name != "reference"])
def test_every_implementation_has_the_signatures_of_the_reference(name: str) -> None:
    reference, found = operations("reference"), operations(name)
    for field in fields(found):
        part = getattr(found, field.name)
        if callable(part) and field.name != "pooled_convolution":
            assert signatures(part) == signatures(getattr(reference, field.name)), field.name


def signatures(part: Any) -> dict[str, list[str]]:
    """Names of the arguments of a function, or of a class's public methods."""
    if not inspect.isclass(part):
        return {"": list(inspect.signature(part).parameters)}
    methods = inspect.getmembers(part, inspect.isfunction)
    return {
        method: list(inspect.signature(function).parameters)
        for method, function in methods
        if method == "__init__" or not method.startswith("_")
    }


def test_only_numba_fuses_pooling_into_convolution() -> None:
    assert operations("numba").pooled_convolution is not None
    assert operations("onednn").pooled_convolution is None
    # The definition of the fused operation exists nonetheless, with the same arguments.
    parts = [
        importlib.import_module(f"vectorized_ops.{name}.pooled_convolution").pooled_convolution
        for name in ("reference", "numba")
    ]
    assert signatures(parts[0]) == signatures(parts[1])


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperationError, match="'mkl': expected one of reference, numba, onednn"):
        operations("mkl")
