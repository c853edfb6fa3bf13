"""`knltrain bench one-sided --processes 2,4,8`: more and more ranks use one rank's memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from affinity.cli.layout import columns
from knltrain.bench.one_sided.benchmark import answer_of_ranks, ground_of, this_machine
from knltrain.communication.memory_box.remote.layout import SLOTS
from knltrain.errors import ConfigError


def run_sweep(size: int, trials: int, processes: Sequence[int], transport: str) -> dict[str, Any]:
    """Measure buffers of ``size`` bytes, one for each process, as `sweep_member` does.

    A trial reads and writes each buffer once; its rate is that of all processes. ``copy`` is the
    rate of a copy by one of them alone. Raises ConfigError for numbers that cannot be, PeerError
    where MPI is missing, or a rank fails.
    """
    wrong = [each for each in processes if not 1 <= each <= SLOTS]
    if wrong or not processes:
        raise ConfigError(
            f"--processes {wrong[0] if wrong else ''}: expected some of 1 to {SLOTS}, as many as "
            "buffers fit into a box"
        )
    options = ["--bytes", str(size), "--trials", str(trials)]
    rows, library = [], ""
    for each in processes:
        found = answer_of_ranks(each + 1, "sweep_member", options, transport)
        rates = [2 * each * size / seconds for seconds in found["seconds"]]
        copy = size / statistics.median(found["copy"])
        rows.append(
            {
                "processes": each,
                "bytes_per_second": statistics.median(rates),
                "of_trials": rates,
                "copy": copy,
            }
        )
        library = found["library"]
    return {
        "library": library,
        "bytes": size,
        "trials": trials,
        "transport": transport,
        "machine": this_machine(),
        "rows": rows,
    }


def format_sweep(report: dict[str, Any]) -> str:
    """Return a line for each number of processes."""
    head = ("processes", "GB/s", "lowest", "highest", "copy, GB/s")
    rows = [
        (
            str(row["processes"]),
            *(
                f"{rate / 1e9:.2f}"
                for rate in (
                    row["bytes_per_second"],
                    min(row["of_trials"]),
                    max(row["of_trials"]),
                    row["copy"],
                )
            ),
        )
        for row in report["rows"]
    ]
    return "\n".join(
        [
            ground_of(report),
            f"a buffer of {report['bytes'] / 1e6:g} MB for each process, at one owner: half of the "
            f"bytes are read, half written; medians of {report['trials']} trials",
            "GB/s of all processes together; that of a copy is by one process alone",
            *columns([head, *rows], right=(0, 1, 2, 3, 4)),
        ]
    )
