"""What a warm-up compiles is all that a run needs: told by real processes that only load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.config import load_config
from knltrain.errors import KernelCacheError
from knltrain.launch import warmup
from knltrain.launch.warmup import WarmUp, warm_up
from vectorized_ops.numba.compiling.journal import MadeKernel, Progress

ROOT = Path(__file__).parents[3]
SHORT = ("--set", "train.steps=2", "--set", "data.test_images=20")
RUN_AFTER_WARM_UP = """
import sys
from pathlib import Path
from knltrain.assembly import build_worker
from knltrain.assembly.teams import build_team
from knltrain.config import load_config
from knltrain.launch.plan import plan_run, threads_of
from knltrain.launch.warmup import warm_up
from vectorized_ops.numba.compiling.journal import JOURNAL
folder, *overrides = sys.argv[1:]
config = load_config(Path(folder, "run.toml"), overrides)
warmed = warm_up(config)
assert len(warmed.made) > 10
known = len(JOURNAL.made)
team = build_team(config, (), 0)
threads = threads_of(config, plan_run(config).placements[0])
with build_worker(config, team, run_folder=Path(folder), threads=threads) as worker:
    result = worker.run()
assert result.test_images == 20, result
print([(one.name, one.signature) for one in JOURNAL.made[known:]])
"""


SEND_AFTER_WARM_UP = """
import sys
from pathlib import Path
import numpy as np
from knltrain.assembly import written_for_the_wire
from knltrain.config import load_config
from knltrain.communication.internode.collective import OneNode
from knltrain.launch.warmup import warm_up
from vectorized_ops.numba.compiling.journal import JOURNAL
folder, *overrides = sys.argv[1:]
config = load_config(Path(folder, "run.toml"), overrides)
warm_up(config)
known = len(JOURNAL.made)
for nodes in (2, 3):  # which send something: not what, but in what arrays counts here
    alone = OneNode()
    alone.nodes, alone.all_gather = nodes, lambda given, found: np.copyto(found, given)
    alone.all_to_all = lambda given, found: np.copyto(found, given[1])
    values = np.arange(70_000, dtype=np.float32)
    written_for_the_wire(config, alone, 70_000).all_reduce(values[112:], 112)  # equal pieces
    assert values[-1] > 0
print([(one.name, one.signature) for one in JOURNAL.made[known:]])
"""


COME_AFTER_WARM_UP = """
import sys
from pathlib import Path
import numpy as np
from knltrain.assembly import build_method
from knltrain.assembly.names import build_center_formats
from knltrain.communication.internode.wire.wire_format import row_for
from knltrain.config import load_config
from knltrain.launch.warmup import warm_up
from knltrain.network.parameters import aligned_zeros
from vectorized_ops.numba.compiling.journal import JOURNAL
folder, *overrides = sys.argv[1:]
config = load_config(Path(folder, "run.toml"), overrides)
warm_up(config)
known = len(JOURNAL.made)
build_method(config, config.total_workers).rule.contribute(*(aligned_zeros(100) for _ in range(3)))
formats, values = build_center_formats(config, 100), np.ones(100, np.float32)
for each in (formats.added, formats.read) if formats else ():
    row = row_for(each.bytes_for(100))
    each.encode(values, np.zeros(100 * each.keeps_residual, np.float32), row)
    each.decode_add(row, values)
print([(one.name, one.signature) for one in JOURNAL.made[known:]])
"""


def knltrain(folder: Path, *words: str) -> str:
    """Run a command with a kernel cache of the folder's own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "knltrain", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"kernels: (\d+) compiled", text)]


def logs(folder: Path, name: str) -> list[str]:
    return [(folder / f"runs/{name}/worker-{rank}.log").read_text() for rank in range(2)]


@pytest.fixture
def folder(tmp_path: Path, run_toml: str, two_cores: None) -> Path:
    (tmp_path / "run.toml").write_text(run_toml)
    return tmp_path


def warm_up_and_train(folder: Path, *overrides: str) -> None:
    words = ("run.toml", *SHORT, *overrides)
    first = knltrain(folder, "warmup", *words)
    entries = sorted(folder.glob("cache/*/*.kernel"))
    assert compiled(first) == [len(entries)]
    assert f"kernel cache {entries[0].parent}" in first
    assert compiled(knltrain(folder, "warmup", *words)) == [0]
    knltrain(folder, "train", *words, "--name", "warm")
    for log in logs(folder, "warm"):
        assert set(compiled(log)) == {0}
        assert min(map(int, re.findall(r"(\d+) loaded", log))) > 0
    assert sorted(folder.glob("cache/*/*.kernel")) == entries


@pytest.mark.slow
def test_a_run_after_a_warm_up_compiles_nothing(folder: Path) -> None:
    warm_up_and_train(folder, "--set", 'backend.implementation="reference"')


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_of_numbas_kernels_after_a_warm_up_compiles_nothing(folder: Path) -> None:
    warm_up_and_train(folder)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_of_the_workers_of_a_run_one_compiles_each_kernel(folder: Path) -> None:
    knltrain(folder, "train", "run.toml", *SHORT, "--name", "cold")
    each = [max(compiled(log)) for log in logs(folder, "cold")]
    assert sum(each) == len(list(folder.glob("cache/*/*.kernel")))
    assert compiled(knltrain(folder, "warmup", "run.toml", *SHORT)) == [0]


@pytest.mark.slow
def test_a_worker_finds_every_kernel_after_a_warm_up(tmp_path: Path, run_toml: str) -> None:
    """With Numba's kernels, from the cache that all tests share."""
    (tmp_path / "run.toml").write_text(run_toml)
    overrides = ("workers=1", "train.steps=2", "data.test_images=20")
    done = subprocess.run(
        [sys.executable, "-c", RUN_AFTER_WARM_UP, tmp_path, *overrides],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("written", ["bfloat16", "int8", "float4", "top_k"])
def test_what_is_sent_to_other_nodes_needs_no_kernel_after_a_warm_up(
    tmp_path: Path, run_toml: str, written: str
) -> None:
    (tmp_path / "run.toml").write_text(run_toml)
    overrides = ("nodes=2", "placement.pin=false", f"exchange.wire_format={written}")
    done = subprocess.run(
        [sys.executable, "-c", SEND_AFTER_WARM_UP, tmp_path, *overrides],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "written"),
    [("easgd", "float32"), ("seasgd", "float32"), ("shmcaffe_h", "int8"), ("downpour", "top_k")],
)
def test_who_comes_alone_to_other_nodes_needs_no_kernel_after_a_warm_up(
    tmp_path: Path, run_toml: str, method: str, written: str
) -> None:
    pytest.importorskip("mpi4py")
    (tmp_path / "run.toml").write_text(run_toml)
    chosen = (f"exchange.method={method}", f"exchange.wire_format={written}")
    overrides = ("nodes=2", "placement.pin=false", *chosen)
    done = subprocess.run(
        [sys.executable, "-c", COME_AFTER_WARM_UP, tmp_path, *overrides],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_cache_that_cannot_be_written_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = Progress(MadeKernel("fill", "()", compiled=True, seconds=0.5), 1, 2, 0.5)
    monkeypatch.setattr(warmup, "cache_is_writable", lambda: False)
    monkeypatch.setattr(warmup, "compile_kernels", lambda *_: iter([lacking]))
    with pytest.raises(KernelCacheError, match=r"lacks kernels.*to a folder that can be"):
        warm_up(load_config(folder / "run.toml", ()))
    monkeypatch.setattr(warmup, "compile_kernels", lambda *_: iter([]))
    assert warm_up(load_config(folder / "run.toml", ())).seconds > 0


def test_kernels_that_could_not_be_kept_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device", "/k/fill.kernel")
    monkeypatch.setattr(warmup, "kernels_not_kept", lambda: [("fill", full)])
    with pytest.raises(KernelCacheError, match=r"1 kernels .* such as fill .*No space left"):
        warm_up(load_config(folder / "run.toml", ()))


def test_a_cache_that_others_may_write_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmup, "cache_refusal", lambda: "/k may be written by others")
    with pytest.raises(KernelCacheError, match="no kernel would be kept: /k may be written by"):
        warm_up(load_config(folder / "run.toml", ()))


def test_what_was_compiled_is_explained_by_name_the_longest_first(tmp_path: Path) -> None:
    made = [("a", True, 1.0), ("b", False, 0.5), ("c", True, 2.0), ("a", True, 1.5)]
    kernels = tuple(MadeKernel(name, "()", *rest) for name, *rest in made)
    warmed = WarmUp(kernels, tmp_path, 9.0, "tuning: nothing")
    assert list(warmed.lines()) == [
        "tuning: nothing",
        f"kernels: 3 compiled in 4.5 s, 1 loaded in 0.5 s; 9.0 s in all; kernel cache {tmp_path}",
    ]
    assert list(warmed.explained()) == [
        "compiled  seconds  longest  kernel",
        "       2     2.50     1.50  a",
        "       1     2.00     2.00  c",
    ]
