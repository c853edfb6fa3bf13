"""`knltrain launch`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from knltrain.cli.options import PathFromHome


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--hosts", metavar="A,B,n[1-4]", help="Computers, the first one first.")
@click.option(
    "--machine-file",
    type=PathFromHome(exists=True, dir_okay=False, path_type=Path),
    help="File with a computer in each line, instead.",
)
@click.option(
    "--via", metavar="COMMAND", help="How to get to a {host}; default: ssh, without a password."
)
@click.option("--address", metavar="ADDRESS", help="Where the others reach the first computer.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def launch(
    hosts: str | None,
    machine_file: Path | None,
    via: str | None,
    address: str | None,
    words: tuple[str, ...],
) -> None:
    """Run a knltrain command on several computers, as `launch --hosts a,b train CONFIG`.

    For clusters without Slurm or MPI. The computers need the same folder of this project's
    environment and of the runs, as a shared file system gives them.
    """
    from knltrain.cluster.host_list import hosts_in, hosts_of
    from knltrain.launch.on_hosts import VIA
    from knltrain.launch.on_hosts import launch as launch_on

    if (hosts is None) == (machine_file is None):
        raise click.UsageError("expected either --hosts A,B,... or --machine-file FILE")
    listed = ",".join(each.strip() for each in (hosts or "").split(","))
    found = hosts_in(machine_file) if machine_file else hosts_of(listed)
    sys.exit(launch_on(found, words, via or VIA, address))
