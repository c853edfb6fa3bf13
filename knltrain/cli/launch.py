"""`knltrain launch`."""

from __future__ import annotations

import sys

import click


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--hosts", required=True, metavar="A,B,...", help="Computers, the first one first.")
@click.option(
    "--via", metavar="COMMAND", help="How to get to a {host}; default: ssh, without a password."
)
@click.option("--address", metavar="ADDRESS", help="Where the others reach the first computer.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def launch(hosts: str, via: str | None, address: str | None, words: tuple[str, ...]) -> None:
    """Run a knltrain command on several computers, as `launch --hosts a,b train CONFIG`.

    For clusters without Slurm or MPI. The computers need the same folder of this project's
    environment and of the runs, as a shared file system gives them.
    """
    from knltrain.launch.on_hosts import VIA
    from knltrain.launch.on_hosts import launch as launch_on

    sys.exit(launch_on([host.strip() for host in hosts.split(",")], words, via or VIA, address))
