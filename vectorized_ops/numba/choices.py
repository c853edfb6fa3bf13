"""Which implementation of an operation is fastest here: measured once, then remembered on disk.

An answer holds for one processor and number of threads and, where the question says it, one state
of the sources. Each lies in a file of its own beside the compiled kernels. Of processes that
measure at the same time the first to write decides for all, so that the ranks of a run choose
alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import llvmlite.binding
import numba

from vectorized_ops.numba.compiler import CACHE_FOLDER, SETTINGS, kernels_in
from vectorized_ops.timing import mean_seconds

ROUNDS = 5
ENOUGH_SECONDS = 2.0
"""After so long no further round is begun: large operations are measured well by one."""

LEAST_SECONDS = 2e-3
"""What takes less is repeated within one timing: calls and clocks must not choose."""

MARGIN = 1.03
"""The first candidate is kept unless another is so much faster: noise must not choose."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The name of the fastest candidate, and the median seconds of each (empty: not measured)."""

    name: str
    seconds: dict[str, float]


def chosen(question: str, candidates: Mapping[str, Callable[[], object]]) -> Choice:
    """Return the remembered answer to `question`, or measure the candidates, which all compute it.

    The first candidate is the plain one. Where nothing can be written the answer is not kept.
    """
    names = list(candidates)
    if len(names) == 1:
        return Choice(names[0], {})
    path = _answer_path(question, names)
    known = _read(path, names)
    if known is not None:
        return known
    seconds = _measure(candidates)
    best = min(names, key=lambda name: seconds[name])
    plain = names[0]
    fastest = Choice(best if seconds[best] * MARGIN < seconds[plain] else plain, seconds)
    return _remember(path, question, fastest, names)


def _measure(candidates: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Run all in alternation, once unmeasured: compilation and first touch do not count."""
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        for name, run in candidates.items():
            times[name].append(mean_seconds(run, LEAST_SECONDS))
        if time.perf_counter() - begin > ENOUGH_SECONDS:
            break
    return {name: statistics.median(measured) for name, measured in times.items()}


def _answer_path(question: str, names: list[str]) -> Path:
    machine = (
        SETTINGS.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
        SETTINGS.CPU_FEATURES or "",
        str(numba.get_num_threads()),
    )
    key = "\n".join((*machine, question, *names))
    return CACHE_FOLDER / "choices" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _read(path: Path, names: list[str]) -> Choice | None:
    """Return what is remembered; a file that was cut off or altered is as good as none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        choice = Choice(str(found["name"]), dict(found["seconds"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return choice if choice.name in names else None


def _remember(path: Path, question: str, choice: Choice, names: list[str]) -> Choice:
    text = json.dumps({"question": question, **asdict(choice)}, indent=1)
    with contextlib.suppress(OSError):
        folder = kernels_in(CACHE_FOLDER)
        folder.make()
        path.parent.mkdir(mode=folder.folder_mode, exist_ok=True)
        partial = folder.new_file_beside(path)
        try:
            partial.write_text(text, encoding="utf-8")
            if _read(path, names) is None:
                path.unlink(missing_ok=True)
            os.link(partial, path)  # fails if another process was faster
        finally:
            partial.unlink()
    return _read(path, names) or choice
