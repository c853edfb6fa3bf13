"""No memory is made by PyTorch's default dtype or device: a program may have changed them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.utils._device import _device_constructors

ROOT = Path(__file__).parents[1]
PACKAGES = ("affinity", "knltrain", "vectorized_ops")

CONSTRUCTORS = {function.__name__ for function in _device_constructors()}
"""Functions of torch that heed the default device; most heed the default dtype, too."""
LEGACY = {"Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor"}
MODULES = {"Conv2d", "Linear", "BatchNorm2d", "Embedding", "LayerNorm", "ConvTranspose2d"}
"""Modules with parameters. The bench's are a plain program's, in a process of their own."""
DOOR = "vectorized_ops/torch/_door.py"


def sources() -> list[Path]:
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return [path for path in paths if "torch" in path.read_text(encoding="utf-8")]


def calls(path: Path) -> Iterator[tuple[ast.Call, str, str]]:
    """Calls in a file: the node, what stands before the last dot, and the name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_torch = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "torch"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            yield node, ast.unparse(node.func.value), node.func.attr
        elif isinstance(node.func, ast.Name) and node.func.id in of_torch:
            yield node, "torch", of_torch[node.func.id]


def faults(path: Path, in_bench: bool = False) -> list[str]:
    found = []
    for node, owner, name in calls(path):
        given = {keyword.arg for keyword in node.keywords}
        makes = (owner == "torch" and name in CONSTRUCTORS) or (
            owner in ("nn", "torch.nn") and name in MODULES and not in_bench
        )
        if makes and not {"dtype", "device"} <= given:
            found.append(f"{path.name}:{node.lineno}: {owner}.{name} names no dtype and device")
        if owner == "torch" and name in LEGACY:
            found.append(f"{path.name}:{node.lineno}: torch.{name} goes by the defaults")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_tensor_is_made_with_its_dtype_and_device(package: str) -> None:
    found = []
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(f"{package}/"):
            found += faults(path, place.startswith("knltrain/bench/"))
    assert found == []


def test_kernels_get_addresses_at_the_door_alone() -> None:
    """`past_caches` looks at addresses as well, but hands none on."""
    takers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "vectorized_ops" / "torch").rglob("*.py")
        for _, _, name in calls(path)
        if name == "data_ptr"
    }
    assert takers == {DOOR, "vectorized_ops/torch/_rows.py"}


@pytest.mark.parametrize(
    "line",
    [
        "torch.empty(3)",
        "torch.zeros(3, dtype=torch.float32)",
        "torch.arange(3, device='cpu')",
        "empty(3)",
        "torch.Tensor(3)",
        "nn.Linear(3, 4)",
    ],
)
def test_what_goes_by_the_defaults_is_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"import torch\nfrom torch import empty, nn\n{line}\n", encoding="utf-8")
    assert len(faults(path)) == 1
