"""`knltrain bench`, a file for each of its commands."""

from __future__ import annotations

import click

from knltrain.cli.bench import data, ddp, exchange, layers, methods, nodes, one_sided, ops, step


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


for _command in (
    step.step,
    ops.ops,
    layers.layers,
    exchange.exchange,
    methods.methods,
    nodes.nodes,
    one_sided.one_sided,
    ddp.ddp,
    data.data,
):
    bench.add_command(_command)
