"""What an import pulls in, seen in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "numba", "torch", "pydantic", "rich", "matplotlib", "tensorboard"}


def _imported_by(code: str) -> set[str]:
    listing = "\nimport sys; print('modules:', *sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code + listing],
        capture_output=True,
        check=True,
        cwd=ROOT,
        text=True,
        timeout=60,
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "code",
    [
        "import knltrain",
        "import affinity",
        "import affinity.exec",
        "import vectorized_ops",
        "import knltrain.cli",
        "from knltrain.cli import commands; commands(['--help'], standalone_mode=False)",
        "from knltrain.cli import commands; commands(['train', '--help'], standalone_mode=False)",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert not HEAVY & _imported_by(code)


@pytest.mark.parametrize(
    ("words", "rarely"),
    [
        (["-m", "knltrain", "--version"], True),
        ([str(Path(sys.executable).with_name("knltrain")), "--version"], True),
        (["-m", "knltrain.launch.pass_on"], True),
        (["-c", "import knltrain"], False),
        (["-m", "theirs"], False),
    ],
)
def test_garbage_is_collected_rarely_in_our_own_programs(
    tmp_path: Path, words: list[str], rarely: bool
) -> None:
    (tmp_path / "theirs.py").write_text("import knltrain.errors")
    told = "import atexit, gc; atexit.register(lambda: print('after', *gc.get_threshold()))"
    (tmp_path / "sitecustomize.py").write_text(told)
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("after"))
    assert (int(line.split()[1]) > 50_000) is rarely


def test_a_heavy_import_would_be_seen() -> None:
    assert "numpy" in _imported_by("import knltrain.network.parameters")


def test_the_launching_process_computes_nothing_and_needs_no_numerical_compiler() -> None:
    heavy = {"numba", "torch", "matplotlib", "rich"}
    assert not heavy & _imported_by("import knltrain.launch.training")


MOST_MODULES = {"parent": 200, "worker": 201}
"""So many of our modules a run of one worker loads at most, in the process that starts it too."""

_TELLING = """
import atexit, os, sys
def tell():
    ours = ("affinity", "knltrain", "vectorized_ops")
    names = sorted(name for name in list(sys.modules) if name.partition(".")[0] in ours)
    role = "worker" if "knltrain.launch.entry" in sys.orig_argv else "parent"
    if "knltrain.launch.entry" in sys.orig_argv or "train" in sys.orig_argv:
        with open(os.path.join(os.environ["MODULES_TOLD_IN"], role), "w") as file:
            file.write(" ".join(names))
atexit.register(tell)
"""


@pytest.mark.slow
def test_a_run_of_one_worker_loads_few_modules(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_TELLING)
    told = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "MODULES_TOLD_IN": str(tmp_path)}
    words = ["train", str(ROOT / "configs" / "lenet_digits.toml"), "--workers", "1"]
    short = ["--set", "train.steps=1", "--set", "placement.pin=false"]
    subprocess.run(
        [sys.executable, "-m", "knltrain", *words, *short],
        cwd=tmp_path,
        env={**os.environ, **told},
        check=True,
        capture_output=True,
        timeout=300,
    )
    for role, most in MOST_MODULES.items():
        names = (tmp_path / role).read_text().split()
        above = f"{role}: {len(names)} modules, expected at most {most}:\n" + "\n".join(names)
        assert 100 < len(names) <= most, above
