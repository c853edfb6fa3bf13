"""`knltrain bench`, a file for each of its commands."""

from __future__ import annotations

import click

from knltrain.cli.on_demand import OnDemandGroup

_NAMES = (
    *("step", "ops", "layers", "cnn", "exchange", "methods", "nodes", "scaling", "start"),
    *("cost-model", "predict", "one-sided", "ddp", "elastic", "data", "balance"),
)


@click.group(cls=OnDemandGroup, package=__name__, names=_NAMES)
def bench() -> None:
    """Measure speed on this machine."""
