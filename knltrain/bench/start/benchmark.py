"""`knltrain bench start`: how long a run takes from its command to the end of its first step.

Each start is a whole `knltrain train` of one step on random pictures, a process of its own, with a
kernel cache of the bench's own: "empty", "filled" by a start before, or empty beside a "package" of
ready kernels.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from affinity import allowed_cpus, read_topology
from knltrain.bench.step.bounds import bounds_of
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import load_config
from knltrain.errors import ConfigError
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder

Cache: TypeAlias = Literal["empty", "filled", "package"]

CACHES: Final[tuple[Cache, ...]] = get_args(Cache)

_RUN: Final = """\
data.name = "random"
train.steps = 1
learning_rate = { base = 0.01, policy = "fixed" }
evaluation = { at_end = false, every_epochs = 0 }
checkpoint = { at_end = false, every_epochs = 0, every_minutes = 0 }
"""
_KERNELS: Final = re.compile(r"kernels: (\d+) compiled in ([\d.]+) s, (\d+) loaded in ([\d.]+) s")
_SAID: Final = 20
"""Lines that an error repeats of what a failed start has said."""


def run_start_benchmark(
    networks: Sequence[str],
    caches: Sequence[str],
    *,
    batch: int = 32,
    workers: int = 1,
    rounds: int = 3,
    package: Path | None = None,
    overrides: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Start runs of `networks` with each of the `caches`, in alternating `rounds`.

    A worker has `batch` images. `package` is the folder that `scripts/build_kernels` has made. The
    report has the machine, its sgemm and copy before and after, and a row for each case: wall
    `seconds` to the end of the first step, `processor_seconds` of all processes of the run,
    `kernels_compiled` and `kernel_seconds` of the first worker, compiled or loaded and added up
    over the processes that did so; medians, and the seconds of all rounds. Raises ConfigError for
    impossible settings, PeerError when a run fails.
    """
    _check(networks, caches, package)
    settings = (f"train.batch={batch * workers}", f"workers={workers}", *overrides)
    cases = list(dict.fromkeys(product(networks, caches)))
    starts: dict[tuple[str, str], list[dict[str, float]]] = {case: [] for case in cases}
    with signals_raise(), temporary_folder() as kept:
        config = kept.path / "start.toml"
        config.write_text(_RUN, encoding="utf-8")
        for network in networks:  # bad settings are told before anything is measured
            load_config(config, (f"network.name={network}", *settings))
        cpus = sorted(allowed_cpus())
        before = bounds_of(cpus)
        for network, cache in cases:
            if cache == "filled":
                _start(kept.path, config, network, cache, package, settings)
        for number, (network, cache) in product(range(1, rounds + 1), cases):
            found = _start(kept.path, config, network, cache, package, settings)
            starts[network, cache].append(found)
            tell(f"round {number} of {rounds}: {network}, {cache}: {found['seconds']:.2f} s")
        after = bounds_of(cpus)
    return {
        "machine": {"model": read_topology().model, "before": before, "after": after},
        "batch": batch,
        "workers": workers,
        "rounds": rounds,
        "settings": list(overrides),
        "rows": [_row(*case, found) for case, found in starts.items()],
    }


def _check(networks: Sequence[str], caches: Sequence[str], package: Path | None) -> None:
    if not networks or not caches:
        raise ConfigError("expected --networks and --caches, with commas between them")
    if unknown := [name for name in caches if name not in CACHES]:
        raise ConfigError(f"--caches {unknown[0]}: expected {', '.join(CACHES)}")
    if ("package" in caches) != (package is not None):
        raise ConfigError(
            "--caches package and --package FOLDER: expected both or neither; "
            "scripts/build_kernels FOLDER makes one"
        )


def _row(network: str, cache: str, found: Sequence[dict[str, float]]) -> dict[str, Any]:
    medians = {key: statistics.median(each[key] for each in found) for key in found[0]}
    return {
        "network": network,
        "cache": cache,
        **medians,
        "of_rounds": [each["seconds"] for each in found],
    }


def _start(
    folder: Path,
    config: Path,
    network: str,
    cache: str,
    package: Path | None,
    settings: Sequence[str],
) -> dict[str, float]:
    """Train one step, in a folder that is empty but for what is cached."""
    kernels, runs = folder / f"{cache}-{network}", folder / "runs"
    if cache != "filled":
        shutil.rmtree(kernels, ignore_errors=True)
    kernels.mkdir(exist_ok=True)
    shutil.rmtree(runs, ignore_errors=True)
    words = (f"network.name={network}", f"runs_folder={runs}", "name=start", *settings)
    named = package.absolute() if cache == "package" and package is not None else "none"
    command: list[str | Path] = [
        *("env", f"NUMBA_CACHE_DIR={kernels}", f"KNLTRAIN_KERNELS={named}"),
        *(sys.executable, "-u", "-m", "knltrain", "train", config, "--no-pictures"),
        *(word for each in words for word in ("--set", each)),
    ]
    begun, first, said = time.perf_counter(), 0.0, list[str]()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("step 1/"):
                    first = time.perf_counter() - begun
                said.append(line)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.send_signal(signal.SIGINT)  # so that the run ends at once, and whole
            raise
    if process.returncode or not first:
        raise PeerError(f"the start of {network} failed:\n{''.join(said[-_SAID:])}")
    log = (runs / "start/worker-0.log").read_text(encoding="utf-8")
    compiled, compiling, _, loading = (
        map(float, found.groups()) if (found := _KERNELS.search(log)) else (0.0,) * 4
    )
    return {
        "seconds": first,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "kernels_compiled": compiled,
        "kernel_seconds": compiling + loading,
    }
