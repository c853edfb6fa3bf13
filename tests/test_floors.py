"""Keeps the house standing: who may import whom, who reads the environment, what is tested."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("affinity", "vectorized_ops", "knltrain")
TESTED_FROM_LINES = 31

FLOORS = {
    "affinity": 0,
    "vectorized_ops": 0,
    "knltrain": 0,  # the bare package, which imports nothing of ours
    "knltrain.clocks": 1,
    "knltrain.errors": 1,
    "knltrain.files": 1,
    "knltrain.trace": 1,
    "knltrain.vectors": 1,
    "knltrain.cluster": 2,
    "knltrain.config": 2,
    "knltrain.data": 2,
    "knltrain.network": 2,
    "knltrain.picture": 2,
    "knltrain.timeline": 2,
    "knltrain.communication": 3,
    "knltrain.confusion": 3,
    "knltrain.cost_model": 3,
    "knltrain.interchange": 3,
    "knltrain.optimizers": 3,
    "knltrain.backends": 4,
    "knltrain.exchange": 4,
    "knltrain.input": 4,
    "knltrain.metrics": 4,
    "knltrain.torch_distributed": 4,
    "knltrain.balance": 5,
    "knltrain.checkpoint": 5,
    "knltrain.evaluation": 5,
    "knltrain.profile": 5,
    "knltrain.distributed_ops": 6,
    "knltrain.worker": 6,
    "knltrain.assembly": 7,
    "knltrain.report": 7,
    "knltrain.scaling": 8,
    "knltrain.launch": 8,
    "knltrain.doctor": 9,
    "knltrain.elastic": 9,
    "knltrain.bench": 10,
    "knltrain.cli": 11,
    "knltrain.__main__": 11,
}
SAME_PACKAGE_ON_TOP = {"knltrain.cli", "knltrain.__main__"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
PACKAGED_KERNELS = "vectorized_ops/numba/compiling/packages.py"
"""It serves programs without knltrain's cluster, too: Numba's own settings come in that way."""

ENVIRONMENT_READERS = ("knltrain/cluster/", "affinity/", PACKAGED_KERNELS)


def sources(root: Path) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(root: Path, path: Path) -> Iterator[str]:
    """Modules of the house that a file imports anywhere, also inside functions."""
    module = module_name(root, path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{absolute(package, node)}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in found if name.partition(".")[0] in PACKAGES)


def absolute(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parents, *([node.module] if node.module else [])])


def room(name: str) -> str | None:
    """The entry of FLOORS that a module, or a name in it, belongs to; None if it has none."""
    parts = name.split(".")
    if parts[0] != "knltrain":
        return parts[0]
    if len(parts) == 1 or parts[1] in ("__version__", "*"):
        return "knltrain"
    return next((entry for entry in FLOORS if entry == ".".join(parts[:2])), None)


def floor_violations(root: Path) -> list[str]:
    violations = []
    for path in sources(root):
        here = room(module_name(root, path))
        if here is None:
            violations.append(f"{path.relative_to(root)}: has no floor: add it to FLOORS")
            continue
        for imported in imported_modules(root, path):
            there = room(imported)
            if there is None:
                violations.append(f"{path.relative_to(root)}: imports {imported}, without a floor")
            elif not may_import(here, there):
                violations.append(
                    f"{path.relative_to(root)}: {here} ({FLOORS[here]}) imports {imported} "
                    f"({FLOORS[there]})"
                )
    return violations


def may_import(here: str, there: str) -> bool:
    both_on_top = {here, there} <= SAME_PACKAGE_ON_TOP
    return here == there or both_on_top or FLOORS[there] < FLOORS[here]


def environment_readers(root: Path) -> list[str]:
    readers = []
    for path in sources(root):
        relative = path.relative_to(root).as_posix()
        if relative.startswith(ENVIRONMENT_READERS):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        lines = sorted({node.lineno for node in ast.walk(tree) if touches_environment(node)})
        readers += [f"{relative}:{line}" for line in lines]
    return readers


def touches_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
        return of_os and node.attr in ENVIRONMENT
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and any(alias.name in ENVIRONMENT for alias in node.names)
    )


def untested_modules(root: Path) -> list[str]:
    untested = []
    for path in sources(root):
        relative = path.relative_to(root)
        tested = any((root / "tests" / mirror).is_file() for mirror in mirrors(relative))
        if not tested and needs_tests(path):
            untested.append(relative.as_posix())
    return untested


def needs_tests(path: Path) -> bool:
    """Whether a file is long, and not just a package's list of what it offers."""
    text = path.read_text(encoding="utf-8")
    if len(text.splitlines()) < TESTED_FROM_LINES:
        return False
    defines = (ast.FunctionDef, ast.ClassDef)
    return path.name != "__init__.py" or any(
        isinstance(node, defines) for node in ast.walk(ast.parse(text))
    )


def mirrors(source: Path) -> list[Path]:
    """Where the tests of a file may stand; those of a package beside it or inside it."""
    if source.name == "__init__.py":
        name = f"test_{source.parent.name}.py"
        return [source.parent / name, source.parent.parent / name]
    return [source.with_name(f"test_{source.stem.strip('_')}.py")]


def test_modules_import_from_lower_floors_only() -> None:
    assert floor_violations(ROOT) == []


def test_environment_is_read_in_cluster_in_affinity_and_for_packaged_kernels_only() -> None:
    assert environment_readers(ROOT) == []


def test_every_module_that_is_more_than_a_few_lines_has_tests_of_its_own() -> None:
    assert untested_modules(ROOT) == []


@pytest.mark.parametrize(
    ("file", "code", "allowed"),
    [
        ("knltrain/worker.py", "import knltrain.checkpoint", True),
        ("knltrain/worker.py", "from knltrain.launch import start", False),
        ("knltrain/worker.py", "from knltrain import launch", False),
        ("knltrain/worker.py", "from . import launch", False),
        ("knltrain/worker.py", "def f():\n    from knltrain import build", False),
        ("knltrain/worker.py", "from knltrain import __version__", True),
        ("knltrain/worker.py", "from knltrain import cellar", False),
        ("knltrain/cellar.py", "", False),
        ("knltrain/__init__.py", "from knltrain.errors import KnltrainError", False),
        ("knltrain/metrics.py", "from knltrain.checkpoint import latest_checkpoint", False),
        (
            "knltrain/exchange/transports/loopback.py",
            "from knltrain.exchange.rules.rule import Rule",
            True,
        ),
        ("knltrain/exchange/transports/loopback.py", "from .rule import Rule", True),
        ("knltrain/exchange/transports/loopback.py", "from ...backends import backend", False),
        ("knltrain/exchange/transports/loopback.py", "from ..errors import KnltrainError", True),
        ("knltrain/backends/cpu/plan.py", "from knltrain.exchange import rule", False),
        ("knltrain/backends/cpu/plan.py", "import vectorized_ops.numba.gemm", True),
        ("knltrain/__main__.py", "from knltrain.cli import main", True),
        ("vectorized_ops/gemm.py", "import affinity", False),
        ("vectorized_ops/gemm.py", "import vectorized_ops.reference.gemm", True),
        ("vectorized_ops/gemm.py", "from knltrain import __version__", False),
        ("affinity/process/binding.py", "from vectorized_ops import gemm", False),
        ("affinity/process/binding.py", "import os, knltrain.errors", False),
    ],
)
def test_check_of_floors_tells_good_imports_from_bad(
    tmp_path: Path, file: str, code: str, allowed: bool
) -> None:
    write(tmp_path / file, code)
    assert (floor_violations(tmp_path) == []) is allowed


@pytest.mark.parametrize(
    ("file", "code", "allowed"),
    [
        ("knltrain/worker.py", "import os\nos.environ['A']", False),
        ("knltrain/worker.py", "import os\ndef f():\n    return os.getenv('A')", False),
        ("knltrain/worker.py", "from os import environ", False),
        ("knltrain/worker.py", "import os\nos.getpid()", True),
        ("knltrain/cluster/task.py", "import os\nos.environ['A']", True),
        ("affinity/process/binding.py", "import os\nos.environ['A']", True),
        ("vectorized_ops/gemm.py", "import os\nos.environ['A']", False),
    ],
)
def test_check_of_the_environment_finds_its_readers(
    tmp_path: Path, file: str, code: str, allowed: bool
) -> None:
    write(tmp_path / file, code)
    assert (environment_readers(tmp_path) == []) is allowed


@pytest.mark.parametrize(
    ("file", "mirror"),
    [
        ("knltrain/worker.py", "tests/knltrain/test_worker.py"),
        ("knltrain/__main__.py", "tests/knltrain/test_main.py"),
        (
            "vectorized_ops/numba/kernels/convolution/dot_tiles.py",
            "tests/vectorized_ops/numba/kernels/convolution/test_dot_tiles.py",
        ),
        ("knltrain/backends/cpu/__init__.py", "tests/knltrain/backends/cpu/test_cpu.py"),
        ("knltrain/backends/cpu/__init__.py", "tests/knltrain/backends/test_cpu.py"),
    ],
)
def test_check_of_tests_asks_for_the_mirrored_file(tmp_path: Path, file: str, mirror: str) -> None:
    write(tmp_path / file, "\n" * TESTED_FROM_LINES + "def f(): ...")
    assert untested_modules(tmp_path) == [file]
    write(tmp_path / mirror, "")
    assert untested_modules(tmp_path) == []


def test_check_of_tests_lets_short_modules_and_lists_of_names_pass(tmp_path: Path) -> None:
    write(tmp_path / "knltrain/worker.py", "\n" * (TESTED_FROM_LINES - 1))
    write(tmp_path / "affinity/__init__.py", "\n" * TESTED_FROM_LINES + "__all__ = ['f']")
    assert untested_modules(tmp_path) == []


def write(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code, encoding="utf-8")
