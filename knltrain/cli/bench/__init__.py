"""`knltrain bench`, a file for each of its commands."""

from __future__ import annotations

import click

from knltrain.cli.bench import ddp, exchange, layers, methods, nodes, ops, step


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
    ddp.ddp,
):
    bench.add_command(_command)
