"""What `python -m build` makes is whole: it works where there are no sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT_OUT = (".*", "*.egg-info", "dist", "runs", "__pycache__")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is made of it."""
    sources, out = (tmp_path_factory.mktemp("wheel") / name for name in ("sources", "dist"))
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns(*KEPT_OUT))
    pytest.importorskip("build")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, sources],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a new environment: the wheel, and what it depends on as it is installed here."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    (wheel,) = built.glob("*.whl")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    # Names of folders in such a file are searched for modules, but not for further such files: so
    # that the sources, which are installed here by one, stay out of sight.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def run(python: Path, *words: str | Path, cwd: Path) -> str:
    environment = {name: it for name, it in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, *words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_have_the_data_and_the_marks_of_types(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    choices = "vectorized_ops/numba/compiling/choices"
    data = {"knltrain/data/digits.npz"}
    data |= {f"{choices}/{path.name}" for path in (ROOT / choices).glob("*.json")}
    marks = {f"{package}/py.typed" for package in ("affinity", "knltrain", "vectorized_ops")}
    marks.add("knltrain/__init__.pyi")
    assert data | marks <= inside
    assert data | marks <= packed
    assert wheel.name.endswith("-py3-none-any.whl"), "no compiler is needed"
    ours = {name for name in inside if name.endswith(".py")}
    sources = {
        str(path.relative_to(ROOT))
        for package in ("affinity", "knltrain", "vectorized_ops")
        for path in (ROOT / package).rglob("*.py")
    }
    assert ours == sources


def test_the_digits_are_learnt_without_the_sources(python: Path, tmp_path: Path) -> None:
    found = run(python, "-c", "import knltrain; print(knltrain.__file__)", cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(python.parents[1])
    shutil.copy(ROOT / "configs/lenet_digits.toml", tmp_path)
    command = python.with_name("knltrain")
    said = run(
        python, command, "train", "lenet_digits.toml", "--set", "train.epochs=2",
        "--set", "evaluation.every_epochs=0", cwd=tmp_path,
    )  # fmt: skip
    assert "test accuracy of the center" in said
    assert (tmp_path / "runs/lenet_digits/result.json").exists()


def test_the_machine_is_shown(python: Path, tmp_path: Path) -> None:
    assert "core" in run(python, "-m", "affinity", "show", cwd=tmp_path)
