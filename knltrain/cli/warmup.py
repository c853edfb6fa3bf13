"""`knltrain warmup`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.options import CONFIG, overrides_option
from knltrain.cli.saying import say


@click.command()
@click.argument("config", type=CONFIG)
@overrides_option
def warmup(config: Path, overrides: tuple[str, ...]) -> None:
    """Compile the kernels that a run of CONFIG needs on this kind of processor, and keep them."""
    from knltrain.config import load_config
    from knltrain.launch.warmup import warm_up

    for line in warm_up(load_config(config, overrides)).lines():
        say(line)
