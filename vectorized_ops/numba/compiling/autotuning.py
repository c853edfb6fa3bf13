"""Measures which implementation of an operation is fastest here, and keeps the choice on disk.

A choice holds for one processor and number of threads and, where the question says so, one state
of the sources. Each is a file of its own beside the compiled kernels. Where several processes
measure at the same time, the first to write decides for all, so that all ranks of a run choose
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
from functools import cache
from pathlib import Path
from typing import Final

import llvmlite.binding
import numba

from vectorized_ops.numba.compiling.cache_folder import touch
from vectorized_ops.numba.compiling.compiler import CACHE_FOLDER, SETTINGS, kernels_in
from vectorized_ops.numba.compiling.journal import TUNING
from vectorized_ops.numba.compiling.packages import (
    choices_in,
    kernel_packages,
    packaged_processor,
)
from vectorized_ops.numba.compiling.recording import active_recorder
from vectorized_ops.timing import mean_seconds

ROUNDS = 5
ENOUGH_SECONDS = 0.5
"""Seconds after which no further round begins: one round is enough for large operations."""

BEATEN = 1.2
"""A candidate whose best time is so many times the fastest one's is measured no further."""

LEAST_SECONDS = 2e-3
"""Shorter runs are repeated within one timing, so that the overhead of calls does not decide."""

MARGIN = 1.03
"""The first candidate is kept unless another is so much faster, so that noise does not decide."""

HOPELESS = 1.4
"""A candidate whose expected time is so many times the fastest one's is not tried."""

SHIPPED: Final = Path(__file__).parent / "choices"
"""Choices by processor, measured by `scripts/build_kernels --tune`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The name of the fastest candidate, and the median seconds of each (empty: not measured)."""

    name: str
    seconds: dict[str, float]


def chosen(
    question: str,
    candidates: Mapping[str, Callable[[], object]],
    expected: Mapping[str, float] | None = None,
    made_by: str = "",
) -> Choice:
    """Return the remembered answer to `question`, or measure the candidates, which all compute it.

    The first candidate is the plain one. `expected` is the expected time of each, in any unit.
    `made_by` is the state of the sources for which an answer holds; answers that come with
    knltrain, or in a package of kernels, hold for all. An answer is not kept if nothing can be
    written, or if it was not measured.
    """
    tried = _worth_trying(candidates, expected)
    names = list(tried)
    if len(names) == 1:
        return Choice(names[0], {})
    path = _answer_path(question, names, made_by)
    known = None if TUNING.mode == "fixed" else _read(path, names)
    if known is not None:
        return known
    packaged = _packaged().get(question) if TUNING.mode in ("auto", "fixed") else None
    if packaged in names:
        return Choice(packaged, {})
    if active_recorder() is not None:
        for run in tried.values():
            run()
    if TUNING.is_over or active_recorder() is not None:
        return Choice(min(names, key=expected.__getitem__) if expected else names[0], {})
    begin = time.perf_counter()
    seconds = _measure(tried)
    TUNING.spent += time.perf_counter() - begin
    TUNING.measured += 1
    best = min(names, key=lambda name: seconds[name])
    plain = names[0]
    fastest = Choice(best if seconds[best] * MARGIN < seconds[plain] else plain, seconds)
    return _remember(path, question, fastest, names)


def _worth_trying(
    candidates: Mapping[str, Callable[[], object]], expected: Mapping[str, float] | None
) -> Mapping[str, Callable[[], object]]:
    if expected is None or TUNING.mode == "full":
        return candidates
    most = HOPELESS * min(expected[name] for name in candidates)
    return {name: run for name, run in candidates.items() if expected[name] <= most}


def _measure(candidates: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Run all candidates in alternation, first a warm-up: compilation and first touch do not count.

    A candidate whose fastest time is clearly beaten takes no part in further rounds.
    """
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    begin, racing = time.perf_counter(), dict(candidates)
    for _ in range(ROUNDS):
        for name, run in racing.items():
            times[name].append(mean_seconds(run, LEAST_SECONDS))
        fastest = min(min(measured) for measured in times.values())
        racing = {name: run for name, run in racing.items() if min(times[name]) < BEATEN * fastest}
        if len(racing) == 1 or time.perf_counter() - begin > ENOUGH_SECONDS:
            break
    return {name: statistics.median(measured) for name, measured in times.items()}


@cache
def _packaged() -> dict[str, str]:
    """The answers for this processor that knltrain has, and above them those of packages."""
    found = choices_in(SHIPPED / f"{packaged_processor()}.json")
    for package in reversed(kernel_packages(CACHE_FOLDER.name)):
        found |= package.choices()
    return found


def _answer_path(question: str, names: list[str], made_by: str = "") -> Path:
    machine = (
        SETTINGS.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
        SETTINGS.CPU_FEATURES or "",
        str(numba.get_num_threads()),
    )
    key = "\n".join((*machine, question, made_by, *names))
    return CACHE_FOLDER / "choices" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _read(path: Path, names: list[str]) -> Choice | None:
    """Return the remembered answers; a truncated or altered file counts as missing."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        choice = Choice(str(found["name"]), dict(found["seconds"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if choice.name not in names:
        return None
    touch(path)
    return choice


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
