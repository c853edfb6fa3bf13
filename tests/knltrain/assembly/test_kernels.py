"""Kernels that are compiled before a worker needs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.assembly.kernels import compile_kernels, known_kernels, take_step
from knltrain.assembly.names import build_network
from knltrain.data.dataset import Batch
from vectorized_ops.numba.compiling import compiler
from vectorized_ops.numba.compiling.compiler import CACHE_FOLDER
from vectorized_ops.numba.compiling.packages import packaged_processor
from vectorized_ops.numba.emit import bfloat16

ROOT = Path(__file__).parents[3]
COMPILE = """
import sys
from knltrain.assembly.kernels import compile_kernels
from knltrain.config import RunConfig
from vectorized_ops.numba.compiling.journal import JOURNAL
config = RunConfig.model_validate_json(sys.argv[1])
for images in (16, 16, 32):
    told = list(compile_kernels(config, images, 2))
    print(len(told) and told[-1].done == told[-1].total, sum(one.made.compiled for one in told))
print(len(JOURNAL.made))
print({"publish_and_read", "one_for_all"} <= {one.name for one in JOURNAL.made})
"""

COMPILE_BY = "import knltrain.assembly.kernels as kernels\nkernels._PROCESS = '{}'\n" + (
    COMPILE.replace("(16, 16, 32)", "(16,)").replace("{", "{{").replace("}", "}}")
)
"""The same once, by another process."""


def run(config, folder: Path, program: str = COMPILE, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, config.model_dump_json()],
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder), **environment,
        },
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_kernels_of_a_network_are_compiled_once_and_other_networks_only_what_differs(
    config, tmp_path: Path
) -> None:
    numba = {"backend__name": "cpu", "backend__implementation": "numba"}
    alone = {**numba, "workers": 1, "exchange__method": "sync_sgd"}
    first, again, with_more_images, made, with_exchange = run(config(**alone), tmp_path)
    compiled = int(first.split()[1])
    assert first == f"True {compiled}"
    assert compiled > 10
    assert [again, with_more_images, int(made)] == ["0 0", "0 0", compiled]
    assert with_exchange == "True"
    assert len(list(tmp_path.glob("*/*.kernel"))) == compiled
    assert run(config(**alone, seed=9), tmp_path) == ["0 0", "0 0", "0 0", "0", "False"]
    (mark,) = tmp_path.glob("*/complete/*")
    states = json.loads(mark.read_bytes())["sources"]
    readers = {source: count for source, (_, count) in states.items()}
    assert 0 < readers["kernels/dense/loops.py"] < compiled
    assert readers["compiling/fingerprint.py"] == 0
    mark.unlink()
    assert run(config(**alone), tmp_path) == ["0 0", "0 0", "0 0", "0", "False"], (
        "they are all found"
    )
    assert mark.exists()
    next(tmp_path.glob("*/*.kernel")).unlink()
    assert run(config(**alone), tmp_path)[:2] == ["True 1", "0 0"]
    other, *_ = run(config(**numba, network={"name": "cifar-quick"}), tmp_path)
    assert int(other.split()[1]) > 0


@pytest.mark.slow
def test_what_a_package_lacks_is_compiled_before_too(config, tmp_path: Path) -> None:
    processor = packaged_processor()
    if processor is None:
        pytest.skip("no packaged kernels are for this processor")
    package = tmp_path / "package"
    (package / processor).mkdir(parents=True)
    manifest = {"digest": CACHE_FOLDER.name, "versions": "", "processors": [processor]}
    (package / "kernels.json").write_text(json.dumps(manifest))
    numba = config(backend__name="cpu", backend__implementation="numba")
    first, again, *_ = run(numba, tmp_path / "cache", KNLTRAIN_KERNELS=str(package))
    assert first.startswith("True ")
    assert again == "0 0"


FAILING = """
from knltrain.assembly import compiling_process, kernels

def fail(*_):
    raise MemoryError("none left")

kernels.take_step = fail
compiling_process.main()
"""


@pytest.mark.slow
def test_a_dry_run_that_fails_says_nothing_of_later_starts(config, tmp_path: Path) -> None:
    numba = config(backend__name="cpu", backend__implementation="numba")
    (tmp_path / "failing.py").write_text(FAILING)
    done = subprocess.run(
        [sys.executable, "-c", COMPILE_BY.format("failing"), numba.model_dump_json()],
        env={
            **os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "NUMBA_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert "when they are called: MemoryError: none left" in done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    assert not list(tmp_path.glob("*/complete/*"))


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")
def test_each_process_that_compiles_may_run_on_all_cpus_though_openmp_places_threads(
    config, tmp_path: Path
) -> None:
    program = """
import os, sys
from affinity.process.other_process import children
from knltrain.assembly.kernels import compile_kernels
from knltrain.config import RunConfig

for told in compile_kernels(RunConfig.model_validate_json(sys.argv[1]), 16, 2):
    if told.done == 1:
        (helper,) = children(os.getpid())
        all_of_them = [helper, *children(helper)]
        cpus = os.sched_getaffinity(0)
        print(len(all_of_them), all(os.sched_getaffinity(each) == cpus for each in all_of_them))
"""
    numba = config(backend__name="cpu", backend__implementation="numba")
    cpus = sorted(os.sched_getaffinity(0))
    places = {"OMP_PLACES": f"{{{cpus[0]}}},{{{cpus[1]}}}", "OMP_PROC_BIND": "close"}
    assert run(numba, tmp_path, program=program, **places) == [f"{len(cpus)} True"]


@pytest.mark.slow
def test_of_workers_that_start_at_once_one_compiles(config, tmp_path: Path) -> None:
    numba = config(backend__name="cpu", backend__implementation="numba")
    (tmp_path / "sleeping.py").write_text(
        'import time; time.sleep(2); print(\'{"readers": {}, "kernels": []}\')'
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", COMPILE_BY.format("sleeping"), numba.model_dump_json()],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{tmp_path}",
                "NUMBA_CACHE_DIR": str(tmp_path),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [worker.communicate()[0] for worker in workers] == ["0 0\n0\nFalse\n"] * 3
    assert len(list(tmp_path.glob("*/complete/*"))) == 1


@pytest.mark.parametrize(
    "backend",
    [
        {"backend__name": "torch", "backend__implementation": "numba"},
        {"backend__name": "cpu", "backend__implementation": "reference"},
    ],
)
def test_who_has_no_kernels_starts_no_process(
    config, backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    assert list(compile_kernels(config(**backend), 16, 1)) == []


def test_kernels_are_known_for_the_precision_and_the_algorithms_of_a_run(
    config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(images: int, **way: object) -> set[str]:
        known = known_kernels(config(**backend, **way), images, copies=False)
        return {known.name, known.packaged_name}

    monkeypatch.setattr(bfloat16, "IS_NATIVE", True)
    monkeypatch.setattr(compiler, "target_sums_pairs_faster", lambda: True)
    backend = {"backend__name": "cpu", "backend__implementation": "numba"}
    rounded = {"backend__precision": "bfloat16"}
    asked = {"backend__algorithms": {"*": "direct"}}
    emulated = {"backend__emulate_bfloat16": True}
    ways = ({}, rounded, rounded | asked, rounded | asked | emulated)
    assert len(set().union(*(names(16, **way) for way in ways))) == 2 * len(ways)
    deeper = {"network__name": "cifar-quick"}  # whose few images do not stay in the lanes
    assert names(1, **deeper) != names(16, **deeper)
    assert names(1, **rounded) == names(16, **rounded) == names(16, backend__precision="auto")


def test_where_nothing_can_be_kept_nothing_is_compiled_before(config, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = run(
        config(backend__name="cpu", backend__implementation="numba"), tmp_path / "file" / "folder"
    )
    assert found == ["0 0", "0 0", "0 0", "0", "False"]


def test_step_computes_and_evaluates(config) -> None:
    run = config(backend__name="cpu", backend__implementation="reference")
    network = build_network(run)
    take_step(run, network, Batch.allocate(4, network.input_shape), threads=1)
