"""The words of ``python -m affinity``: what may be typed, and who does it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from affinity.cli import deeds
from affinity.cli.guide import EXAMPLES, OTHER_TOOLS, RUN_EXAMPLES, WORDS
from affinity.cli.layout import showable
from affinity.cli.options import add_machine_options, add_request_options, add_run_options
from affinity.errors import AffinityError

_BAD_REQUEST, _INTERRUPTED, _READER_GONE = 2, 130, 141


def main(arguments: Sequence[str]) -> int:
    """Do what the words say and return the exit status; every error that we know of is one line."""
    words, command = _split(arguments)
    options = _parser().parse_args(words or ["--help"])
    options.command = command
    try:
        status: int = options.do(options)
        sys.stdout.flush()
    except AffinityError as error:
        sys.stderr.write(showable(f"error: {error}\n", sys.stderr.encoding))
        return _BAD_REQUEST
    except BrokenPipeError:
        # Whoever read our output has left; Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without all the options before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(_BAD_REQUEST, f"error: {message}; see {self.prog} --help\n")


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    # Done by hand: what argparse does with -- differs between versions of Python.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m affinity",
        usage="%(prog)s WORD [options]",
        description=WORDS,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    words = parser.add_subparsers(help=argparse.SUPPRESS, required=True, metavar="WORD")

    def word(
        name: str, do: Callable[[argparse.Namespace], int], told: str, usage: str, epilog: str = ""
    ) -> argparse.ArgumentParser:
        added = words.add_parser(
            name,
            prog=f"python -m affinity {name}",
            usage=f"%(prog)s {usage}",
            description=told[0].upper() + told[1:] + ".",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(do=do)
        return added

    show = word(
        "show",
        deeds.show,
        "the machine: its cores and memories, and how they are known",
        "[--machine FILE] [--hbm NODES] [--json | --picture FILE]",
    )
    add_machine_options(show)
    _add_output(show)
    plan = word(
        "plan",
        deeds.plan,
        "which cores and which memory each worker would get, and why",
        "--workers N|UNIT [options]",
        epilog=OTHER_TOOLS,
    )
    add_request_options(plan)
    add_machine_options(plan)
    _add_output(plan)
    check = word(
        "check",
        deeds.check,
        "does it work here: limits, policies, settings, surprises",
        "[--pid PID] [--json]",
    )
    check.add_argument("--pid", type=int, metavar="PID", help="look at a running process instead")
    check.add_argument("--json", action="store_true", help="print JSON")
    add_machine_options(check, files=False)
    run = word(
        "run",
        deeds.run,
        "start a command once for each worker, each in its place",
        "--workers N|UNIT [options] -- CMD ARGS...",
        epilog=RUN_EXAMPLES,
    )
    add_run_options(run)
    add_request_options(run)
    add_machine_options(run, files=False)
    snapshot = word(
        "snapshot",
        deeds.snapshot,
        "keep what the kernel tells of this machine, for --machine",
        "FILE.tgz",
    )
    snapshot.add_argument("file", type=Path, metavar="FILE.tgz", help="must not be there yet")
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output, instead of text")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--picture", metavar="FILE", type=Path, help="draw an .svg or a .png")
