"""A package of ready kernels is made, and what it has is not compiled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vectorized_ops.numba.compiling.packages import packaged_processor

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/build_kernels"


def build(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words], capture_output=True, text=True, cwd=ROOT
    )


@pytest.mark.slow
def test_a_run_with_a_package_compiles_nothing(
    tmp_path: Path,
) -> None:
    processor = packaged_processor()
    if processor is None:
        pytest.skip("no packaged kernels are for this processor")
    package = tmp_path / "package"
    done = build("--networks", "lenet", "--tune", package, processor)
    assert done.returncode == 0, done.stderr
    kept = len(list(package.glob(f"{processor}/*.kernel")))
    assert done.stdout == f"build_kernels: {kept} kernels for {processor}\n"
    assert json.loads((package / "kernels.json").read_text())["processors"] == [processor]
    assert (package / processor / "choices.json").exists()
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "KNLTRAIN_KERNELS": str(package)}
    run = subprocess.run(
        [
            sys.executable, "-m", "knltrain", "warmup", ROOT / "configs/lenet_digits.toml",
            "--set", "workers=2", "--set", "placement.pin=false",
        ],
        env={**os.environ, **settings, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "compiling kernels" not in run.stdout
    assert re.search(r"kernels: 0 compiled .*, [12]\d loaded", run.stdout)
    assert not list((tmp_path / "cache").glob("*/complete")), "the package tells what it has"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["vax"], "unknown processor vax: expected sapphirerapids, znver4"),
        (["--networks", "lenet,brain", "knl"], "unknown network brain: expected alexnet"),
        (["--tune", "knl"], "--tune measures on this machine, whose processor"),
    ],
)
def test_what_cannot_be_built_is_refused(tmp_path: Path, words: list[str], told: str) -> None:
    done = build(tmp_path / "package", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "package").exists()
