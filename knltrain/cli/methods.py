"""`knltrain methods`."""

from __future__ import annotations

import json

import click

from knltrain.cli.options import as_json_option
from knltrain.cli.saying import say


@click.command()
@as_json_option
def methods(as_json: bool) -> None:
    """List the methods of exchange: their equations, papers, and what they start from."""
    from knltrain.config.methods_table import format_table, listed

    say(json.dumps(listed(), indent=2) if as_json else format_table(listed()))
