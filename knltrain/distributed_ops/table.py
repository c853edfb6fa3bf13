"""The table of times of each layer, with the roofline bounds of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from affinity.cli.layout import columns
from knltrain.distributed_ops.costs import Cost
from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.machine import Machine
from knltrain.distributed_ops.times import Times
from knltrain.profile.bounds import binding
from vectorized_ops.machine_bounds import Bounds


@dataclass(frozen=True, slots=True)
class Row:
    """One direction of a layer: the cost of a call, and its mean time in seconds.

    - `arithmetic_intensity`: operations per byte of memory
    - `communication_intensity`: operations per byte sent; None if nothing is sent
    - `roofline_seconds`: the larger of executed operations / peak and bytes of the layout /
      bandwidth; `bound` is that of `knltrain.profile.bounds`
    - `efficiency`: `roofline_seconds` / `compute_seconds`. It can exceed 1: tensors in caches count
      as memory traffic.
    - `wire_bound_seconds`: latency × steps + bytes / the network's bandwidth
    """

    layer: str
    kind: str
    direction: str
    calls: int
    flops: int
    memory_bytes: int
    executed_flops: int
    layout_bytes: int
    wire_bytes: float
    compute_seconds: float
    issued_seconds: float
    exposed_seconds: float
    arithmetic_intensity: float
    communication_intensity: float | None
    bound: str
    roofline_seconds: float
    efficiency: float
    wire_bound_seconds: float | None


def table(layers: Iterable[Layer], machine: Machine) -> list[Row]:
    """Return a row for each direction that was computed; `dataclasses.asdict` suits JSON."""
    return list(_rows(layers, machine))


def _rows(layers: Iterable[Layer], machine: Machine) -> Iterator[Row]:
    for layer in layers:
        for direction, times in layer.times.items():
            cost = layer.cost(direction)
            if times.calls and cost.memory_bytes:
                yield _row(layer, direction, times, cost, machine)


def _row(layer: Layer, direction: str, times: Times, cost: Cost, machine: Machine) -> Row:
    compute = times.compute_seconds / times.calls
    bounds = Bounds(machine.flops_per_second, machine.memory_bytes_per_second)
    bound = binding(cost.executed_flops, cost.layout_bytes, bounds, compute)
    assert bound is not None  # it moves bytes
    return Row(
        layer=layer.name,
        kind=layer.kind,
        direction=direction,
        calls=times.calls,
        flops=cost.flops,
        memory_bytes=cost.memory_bytes,
        executed_flops=cost.executed_flops,
        layout_bytes=cost.layout_bytes,
        wire_bytes=cost.wire_bytes,
        compute_seconds=compute,
        issued_seconds=times.issued_seconds / times.calls,
        exposed_seconds=times.exposed_seconds / times.calls,
        arithmetic_intensity=cost.flops / cost.memory_bytes,
        communication_intensity=cost.flops / cost.wire_bytes if cost.wire_bytes else None,
        bound=bound.bound,
        roofline_seconds=bound.seconds,
        efficiency=bound.seconds / compute if compute else 0.0,
        wire_bound_seconds=_wire_bound(cost, machine),
    )


def _wire_bound(cost: Cost, machine: Machine) -> float | None:
    if machine.network_bytes_per_second is None or not cost.wire_bytes:
        return None
    sending = cost.wire_bytes / machine.network_bytes_per_second
    return machine.latency_seconds * cost.wire_steps + sending


def printed(rows: Iterable[Row]) -> str:
    """Return the table as text, times in milliseconds."""
    head = "layer", "direction", "compute", "bound", "issued", "exposed", "FLOP/B", "FLOP/sent B"
    return "\n".join(columns([head, *map(_texts, rows)], right=range(2, len(head))))


def _texts(row: Row) -> tuple[str, ...]:
    sent = row.communication_intensity
    times = row.compute_seconds, row.roofline_seconds, row.issued_seconds, row.exposed_seconds
    return (
        row.layer,
        row.direction,
        *(f"{1e3 * seconds:.3f}" for seconds in times),
        f"{row.arithmetic_intensity:.2f}",
        "-" if sent is None else f"{sent:.0f}",
    )
