"""`knltrain bench`, a file for each of its commands."""

from __future__ import annotations

import click

from knltrain.cli.bench import ddp, exchange, methods, nodes, ops, step


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


for _command in (step.step, ops.ops, exchange.exchange, methods.methods, ddp.ddp, nodes.nodes):
    bench.add_command(_command)
