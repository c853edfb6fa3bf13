from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import IMPLEMENTATIONS, Operations, operations
from vectorized_ops.numba.compiling import compiler
from vectorized_ops.shapes import ConvolutionShape

MISSING = {
    "reference": {"pooled_convolution", "chosen", "prepare", "repetition"},
    "numba": set(),
    "onednn": {
        "pooled_convolution",
        "local_response_normalisation",
        "within_channel_normalisation",
        "dropout",
        "chosen",
        "prepare",
        "repetition",
    },
    "channels_last": {"pooled_convolution", "chosen", "repetition"},
}

BORROWED = {"onednn": {"reference"}, "channels_last": {"reference", "numba"}}
"""Whose parts an implementation offers as they are: the reference's have C order, too."""

PARTS = [name for name in vars(Operations) if not name.startswith("_") and name != "part"]


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_implementation_is_found_in_its_own_package(name: str) -> None:
    found = operations(name)
    assert found.name == name
    packages = {name, *BORROWED.get(name, ())}
    for operation in PARTS:
        part = getattr(found, operation)
        if callable(part):
            assert part.__module__.split(".")[1] in packages, operation


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_operations_that_an_implementation_has_not_are_none(name: str) -> None:
    found = operations(name)
    missing = {operation for operation in PARTS if getattr(found, operation) is None}
    assert missing == MISSING[name]


def test_numba_alone_keeps_activations_in_bfloat16() -> None:
    assert operations("numba", precision="bfloat16").kept == np.uint16
    assert operations("onednn").kept == np.float32
    for name, precision in (
        ("onednn", "bfloat16"),
        ("channels_last", "bfloat16"),
        ("numba", "half"),
    ):
        with pytest.raises(OperationError, match=f"precision '{precision}' of .* '{name}'"):
            operations(name, precision=precision)


def test_a_part_is_imported_when_it_is_first_asked_for() -> None:
    program = """
import sys
from vectorized_ops.implementations import operations
found = operations("reference")
before = {name for name in sys.modules if name.startswith("vectorized_ops.reference.")}
assert not before, before
assert found.dense is found.dense
after = {name for name in sys.modules if name.startswith("vectorized_ops.reference.")}
assert "vectorized_ops.reference.dense" in after and "vectorized_ops.reference.lrn" not in after
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_without_winograd_numba_convolves_by_direct_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    direct, tuned = operations("numba", winograd=False), operations("numba")
    window = ConvolutionShape(16, 12, 12, 16, 16, (3, 3), padding=(1, 1))
    found = {choice.name for choice in direct.convolution(window).choices.values()}
    assert found == {"direct"}
    assert tuned.convolution.__name__ == "TunedConvolution"
    assert direct.pooled_convolution is not None
    monkeypatch.setattr(compiler, "target_has_amx", lambda: True)
    direct, tuned = (operations("numba", winograd, "bfloat16") for winograd in (False, True))
    assert (direct.dense.func.__name__, tuned.dense.__name__) == ("Dense", "rounded_dense")
    assert tuned.pooled_convolution is not None
    shape = (16, 12, 12, 20), 16, 5
    assert direct.pooled_convolution(*shape).algorithm == "direct"
    assert tuned.pooled_convolution(*shape).algorithm == "winograd4"


def test_convolutions_that_are_only_measured_compute_no_network() -> None:
    with pytest.raises(OperationError, match=r"'fft': expected one of .*, channels_last$"):
        operations("fft")
    expected = signatures(operations("reference").convolution)
    assert signatures(Operations("fft").convolution) == expected


@pytest.mark.parametrize("name", [name for name in IMPLEMENTATIONS if name != "reference"])
def test_every_implementation_has_at_least_the_methods_of_the_reference(name: str) -> None:
    reference, found = operations("reference"), operations(name)
    for operation in PARTS:
        part = getattr(found, operation)
        if callable(part) and operation not in MISSING["reference"]:
            expected = signatures(getattr(reference, operation))
            offered = signatures(part)
            for method, named in expected.items():
                own = offered[method][len(named) :]
                assert offered[method][: len(named)] == named, (operation, method)
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
