"""The recipes for sites: in form, and in agreement with pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SECTIONS = {"files", "post", "test", "runscript", "labels", "help", "environment"}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def sections(text: str) -> dict[str, list[str]]:
    """The lines of each section of a definition, those of the header under its empty name."""
    found: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines():
        if line.startswith("%"):
            name = line[1:].split()[0]
            assert name not in found
            found[name] = []
        elif line.strip() and not line.startswith("#"):
            assert not name or line.startswith("    "), line
            found[name].append(line.strip())
    return found


def test_the_container_has_what_it_installs() -> None:
    found = sections((ROOT / "scripts/apptainer.def").read_text())
    header = dict(line.split(": ") for line in found.pop(""))
    assert header["Bootstrap"] == "docker"
    assert re.fullmatch(r"python:3\.\d+[\w.-]*", header["From"])
    assert set(found) <= SECTIONS
    copied = [line.split() for line in found["files"]]
    assert all((ROOT / source).exists() for source, _ in copied)
    packages = {"affinity", "knltrain", "vectorized_ops"}
    assert packages | {"pyproject.toml", "README.md", "LICENSE"} <= {source for source, _ in copied}
    script = "\n".join(("set -e", *found["post"]))
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_the_spack_package_depends_on_what_the_wheel_does() -> None:
    tree = ast.parse((ROOT / "scripts/spack/package.py").read_text())
    (package,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    assert package.name == "PyKnltrain"
    calls = [node for node in ast.walk(package) if isinstance(node, ast.Call)]
    named = {
        (call.func.id, str(ast.literal_eval(call.args[0])))
        for call in calls
        if isinstance(call.func, ast.Name) and call.args
    }
    specs = [spec for function, spec in named if function == "depends_on"]
    expected = (
        PYPROJECT["project"]["dependencies"] + PYPROJECT["project"]["optional-dependencies"]["mpi"]
    )
    for requirement in expected:
        name, _, least = re.split(r"(>=)", requirement.partition(";")[0].partition(",")[0])
        matching = [spec for spec in specs if spec.startswith(f"py-{name}@{least.strip()}:")]
        assert len(matching) == 1, requirement
    ours = {spec.partition("@")[0] for spec in specs} - {"python", "py-setuptools", "hwloc"}
    assert len(ours) == len(expected)
    import knltrain

    assert ("version", knltrain.__version__) in named
    assert ("license", PYPROJECT["project"]["license"]) in named
