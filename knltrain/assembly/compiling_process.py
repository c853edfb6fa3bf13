"""The process that compiles kernels: `python -m knltrain.assembly.compiling_process PARENT`."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict

from knltrain.assembly.kernels import MOST_PROCESSES, found_of, wanted_kernels
from knltrain.config import RunConfig


def main() -> None:
    """Compile the kernels requested on standard input; print a line for each.

    If all are known, a last line has their names, and how many are compiled from each source.
    """
    from vectorized_ops.numba.compiling.all_cores import compile_missing, die_with_parent

    die_with_parent(int(sys.argv[1]))
    request = json.load(sys.stdin)
    config = RunConfig.model_validate(request.pop("config"))
    with suppress(OSError):  # the worker's own cores are enough
        os.sched_setaffinity(0, request.pop("cpus"))
    processes = min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
    wanted, are_all = wanted_kernels(config, **request)
    for progress in compile_missing(wanted, processes):
        print(json.dumps(asdict(progress)), flush=True)
    if are_all:
        print(json.dumps(found_of(wanted)))


if __name__ == "__main__":
    main()
