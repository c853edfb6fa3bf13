"""`knltrain topology`."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def topology(options: tuple[str, ...]) -> int:
    """Show the machine's cores and memories, as python -m affinity show does."""
    from affinity.cli.parser import main as affinity_main

    return affinity_main(["show", *options])
