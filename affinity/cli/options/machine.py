"""Options that choose the machine to read, and the output format."""

from __future__ import annotations

import argparse

from affinity.cli.options.reading import file_name, typed
from affinity.machine.memory_kind import parse_hbm


def add_machine_options(
    parser: argparse.ArgumentParser,
    files: bool = True,
    either: argparse._MutuallyExclusiveGroup | None = None,
) -> None:
    """Options for the machine, and for facts that its files do not tell.

    ``--machine`` is in the group `either`, with the options that exclude it.
    """
    group = parser.add_argument_group("the machine")
    if files:
        (either or group).add_argument(
            "--machine",
            metavar="FILE",
            type=file_name,
            help="another machine than this one: a snapshot, hwloc's XML, text of numactl -H",
        )
    group.add_argument(
        "--hbm",
        metavar="NODES",
        type=typed(parse_hbm),
        help="these NUMA nodes are HBM, as in 2-3, or 8@0,9@1: 8 is that of node 0's cores",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """JSON or a picture, in place of text."""
    group = parser.add_argument_group("output, instead of text")
    either = group.add_mutually_exclusive_group()
    either.add_argument("--json", action="store_true", help="print JSON")
    either.add_argument("--picture", metavar="FILE", type=file_name, help="draw an .svg or a .png")
