"""`knltrain warmup`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from knltrain.cli.options import CONFIG, overrides_option
from knltrain.cli.saying import say


@click.command()
@click.argument("config", type=CONFIG)
@overrides_option
@click.option(
    "--explain", is_flag=True, help="Tell which kernels were compiled, and how long each took."
)
def warmup(config: Path, overrides: tuple[str, ...], explain: bool) -> None:
    """Compile the kernels that a run of CONFIG needs on this kind of processor, and keep them."""
    from knltrain.config import load_config
    from knltrain.launch.module_import import module_import
    from knltrain.launch.progress import display_on
    from knltrain.launch.warmup import warm_up

    run = load_config(config, overrides)
    display = display_on(sys.stdout)
    with module_import(run, display.note) as found, display:
        warmed = warm_up(found.config, lambda progress: display.compiling(progress.counts()))
    for line in (*(warmed.explained() if explain else ()), *warmed.lines()):
        say(line)
