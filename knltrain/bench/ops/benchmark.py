"""`knltrain bench ops`: every operation of a network, by each implementation, beside the bounds.

A compute-bound operation is compared with the machine's matrix product, a memory-bound one with a
copy, both measured in the same rounds. Implementations take turns. An operation of less than 10 ms
is repeated, so it finds in the caches what fits there. The copy is of 128 MiB.
"""

from __future__ import annotations

import statistics
from typing import Any

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.backends.cpu.precision import precision_here
from knltrain.bench.ops.cases import Case, cases
from knltrain.bench.ops.report import bandwidths, comparisons
from knltrain.cluster.variables import processor_settings
from knltrain.errors import ConfigError, unknown_name
from knltrain.network.zoo.networks import network_named
from vectorized_ops.implementations import IMPLEMENTATIONS, Operations
from vectorized_ops.machine_bounds import Bounds, MachineBounds
from vectorized_ops.shapes.execution import executed
from vectorized_ops.timing import mean_seconds

ROUNDED = ("numba-bfloat16", "onednn-bfloat16")
"""Those that keep activations in bfloat16."""

CONTESTANTS = (*IMPLEMENTATIONS, *ROUNDED, "fft")
"""The last has convolutions alone, and computes no network."""

ENOUGH_SECONDS = 0.01
"""What takes less is repeated within one timing: calls and clocks must not count."""


def run_ops_benchmark(
    network: str,
    batch: int,
    implementations: tuple[str, ...],
    threads: int | None,
    rounds: int,
    kinds: tuple[str, ...] = (),
    winograd: bool = True,
) -> dict[str, Any]:
    """Measure each operation of `network` in `rounds` alternating rounds; medians over the rounds.

    `kinds` are the operations to measure, such as "convolution"; none means all. Without `winograd`
    "numba" convolves by direct sums alone. The report has

    - the machine, and the processor settings of the environment (`settings`);
    - sgemm_gflops, and copy_gbytes_per_second (read and written); with contestants in bfloat16
      also bfloat16_gemm_gflops, PyTorch's product in it;
    - a row per operation, shape, direction and implementation: milliseconds; gflops and
      share_of_sgemm, or gbytes_per_second and share_of_copy; flops and compulsory_bytes by
      definition; of "numba" executed_flops and layout_bytes, by the algorithm and the layout;
      `algorithm` is the one chosen for a convolution, `candidates` are the milliseconds of all;
    - `comparisons` and `bandwidths`, those of `report`.
    """
    for name in implementations:
        if name not in CONTESTANTS:
            raise ConfigError(unknown_name("implementation", name, CONTESTANTS))
    if "numba-bfloat16" in implementations:
        precision_here("bfloat16", emulate=False)
    if not implementations:
        raise ConfigError(
            f"no implementation was named: expected at least one of {', '.join(CONTESTANTS)}"
        )
    found = _wanted(cases(network_named(network), batch), kinds)
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    crew = cores if threads is None else threads
    sets = {name: _contestant(name, winograd) for name in implementations}
    for each in sets.values():
        each.use_threads(crew)
    bounds = _Bounds(crew, any(each.endswith("bfloat16") for each in implementations))
    rows = [row for case in found for row in _measured(case, sets, bounds, rounds)]
    return {
        "machine": read_topology().model,
        "settings": processor_settings(),
        "network": network,
        "batch": batch,
        "threads": crew,
        "rounds": rounds,
        "sgemm_gflops": statistics.median(each.flops_per_second for each in bounds.found) / 1e9,
        "copy_gbytes_per_second": statistics.median(each.bytes_per_second for each in bounds.found)
        / 1e9,
        **bounds.in_bfloat16(),
        "rows": rows,
        "comparisons": comparisons(rows, implementations),
        "bandwidths": bandwidths(rows),
    }


def _contestant(name: str, winograd: bool) -> Operations:
    implementation, _, precision = name.partition("-")
    return Operations(implementation, winograd, precision or "float32")


def _wanted(found: list[Case], kinds: tuple[str, ...]) -> list[Case]:
    known = {case.kind for case in found}
    for kind in kinds:
        if kind not in known:
            raise ConfigError(unknown_name("operation", kind, known))
    return [case for case in found if not kinds or case.kind in kinds]


def _measured(
    case: Case, sets: dict[str, Operations], bounds: _Bounds, rounds: int
) -> list[dict[str, Any]]:
    """Return a row per direction and implementation; all take turns, and the bounds with them."""
    prepared = {
        name: case.operation.calls(each) for name, each in sets.items() if case.has_form(name)
    }
    work = {
        (direction, name): run
        for name, made in prepared.items()
        if made is not None
        for direction, run in made.runs.items()
    }
    for run in work.values():
        run()
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in work}
    shares: dict[tuple[str, str], list[float]] = {key: [] for key in work}
    for _ in range(rounds):
        at_best = bounds.measure()
        for key, run in work.items():
            taken = mean_seconds(run, ENOUGH_SECONDS)
            seconds[key].append(taken)
            cost = case.operation.costs[key[0]].kept_in(sets[key[1]].kept.itemsize)
            is_product = case.bound_by_products
            least = (
                cost.flops / at_best.flops_per_second
                if is_product
                else cost.compulsory_bytes / at_best.bytes_per_second
            )
            shares[key].append(least / taken)
    rows = []
    for direction in case.operation.costs:
        for key in (key for key in work if key[0] == direction):
            made = prepared[key[1]]
            choice = made.choices.get(direction) if made is not None else None
            measured = statistics.median(seconds[key]), statistics.median(shares[key])
            rows.append(_row(case, key, sets[key[1]], choice, *measured))
    return rows


def _row(
    case: Case,
    key: tuple[str, str],
    operations: Operations,
    choice: Any,
    seconds: float,
    share: float,
) -> dict[str, Any]:
    direction, implementation = key
    operation, is_product = case.operation, case.bound_by_products
    value_bytes = operations.kept.itemsize
    cost = operation.costs[direction].kept_in(value_bytes)
    algorithm = None if choice is None else choice.name
    done = None
    if operations.name == "numba":
        done = executed(operation, direction, algorithm, value_bytes)
    return {
        "operation": case.kind,
        "shape": str(operation),
        "layers": case.layers,
        "direction": direction,
        "implementation": implementation,
        "algorithm": algorithm,
        "candidates": {}
        if choice is None
        else {name: 1e3 * taken for name, taken in choice.seconds.items()},
        "milliseconds": 1e3 * seconds,
        "flops": cost.flops,
        "executed_flops": None if done is None else done.executed_flops,
        "compulsory_bytes": cost.compulsory_bytes,
        "layout_bytes": None if done is None else done.layout_bytes,
        "gflops": cost.flops / seconds / 1e9 if is_product else None,
        "share_of_sgemm": share if is_product else None,
        "gbytes_per_second": None if is_product else cost.compulsory_bytes / seconds / 1e9,
        "share_of_copy": None if is_product else share,
    }


class _Bounds:
    """The machine's bounds, measured beside the operations; all that were `found`."""

    def __init__(self, threads: int, in_bfloat16: bool) -> None:
        self._machine = MachineBounds(threads)
        self._rounding = MachineBounds(threads, precision="bfloat16") if in_bfloat16 else None
        self._rounded: list[float] = []
        self.found: list[Bounds] = []

    def measure(self) -> Bounds:
        """Measure now."""
        self.found.append(self._machine.measure())
        if self._rounding is not None:
            self._rounded.append(self._rounding.flops_per_second(ENOUGH_SECONDS))
        return self.found[-1]

    def in_bfloat16(self) -> dict[str, float]:
        """The product in bfloat16, as the report has it, if it was measured."""
        if self._rounding is None:
            return {}
        return {"bfloat16_gemm_gflops": statistics.median(self._rounded) / 1e9}
