"""Environment variables by which numerical libraries count and place their threads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

THREAD_COUNT_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

THREAD_PLACEMENT_VARIABLES = (
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
)
"""Variables by which an OpenMP runtime moves threads behind the back of `bind_process`.

GNU's runtime obeys as soon as it is loaded: it binds the main thread to its first place, and every
thread pool that counts its cpus later finds one.
"""


def thread_environment(threads: int, cores: Sequence[Sequence[int]] = ()) -> dict[str, str]:
    """Variables that give every numerical library `threads` threads, read when it is loaded.

    With `cores` (the cpus of each), whole threads to a core, every OpenMP thread of GNU's and of
    Intel's runtime stays on its core, and its data in the caches there. OpenMP then leaves the
    main thread on the first core, too: if that is to start children, load it within
    `main_thread_mask_kept`.
    Otherwise threads roam within the mask of their process.
    """
    counts = dict.fromkeys(THREAD_COUNT_VARIABLES, str(threads))
    if threads == 1 or not cores or threads % len(cores):
        return counts
    places = ",".join(f"{{{','.join(map(str, cpus))}}}" for cpus in cores)
    return {**counts, "OMP_PLACES": places, "OMP_PROC_BIND": "close"}


def placement_environment() -> dict[str, str]:
    """The `THREAD_PLACEMENT_VARIABLES` that are set for this process, with their values."""
    return {name: os.environ[name] for name in THREAD_PLACEMENT_VARIABLES if name in os.environ}


def thread_count_contradictions(
    threads: int, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Which variables in the environment give a library other than `threads` threads, and why."""
    contradictions = []
    for name in THREAD_COUNT_VARIABLES:
        value = environment.get(name, str(threads))
        if value.partition(",")[0].strip() != str(threads):
            launched = name == "OMP_NUM_THREADS" and "TORCHELASTIC_RUN_ID" in environment
            cause = " (torchrun sets 1 where nothing is set)" if launched else ""
            contradictions.append(
                f"{name}={value}{cause}, but this place is for {threads} threads: "
                f"set {name}={threads} before the program starts"
            )
    return tuple(contradictions)
