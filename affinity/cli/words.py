"""The words of ``python -m affinity``: what may be typed, and who does it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from affinity.cli import deeds
from affinity.cli.guide import DESCRIPTION, EXAMPLES, OTHER_TOOLS, RUN_EXAMPLES, WORDS
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
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    words = parser.add_subparsers(help=argparse.SUPPRESS, required=True, metavar="WORD")
    show = _add_word(
        words, "show", deeds.show, "[--machine FILE] [--hbm NODES] [--json | --picture FILE]"
    )
    add_machine_options(show)
    _add_output(show)
    plan = _add_word(words, "plan", deeds.plan, "--workers N|UNIT [options]", OTHER_TOOLS)
    add_request_options(plan)
    add_machine_options(plan)
    _add_output(plan)
    check = _add_word(words, "check", deeds.check, "[--pid PID] [--json]")
    check.add_argument("--pid", type=int, metavar="PID", help="look at a running process instead")
    check.add_argument("--json", action="store_true", help="print JSON")
    add_machine_options(check, files=False)
    usage = "--workers N|UNIT [options] -- CMD ARGS..."
    run = _add_word(words, "run", deeds.run, usage, RUN_EXAMPLES)
    add_run_options(run)
    add_request_options(run)
    add_machine_options(run, files=False)
    snapshot = _add_word(words, "snapshot", deeds.snapshot, "FILE.tgz")
    snapshot.add_argument("file", type=Path, metavar="FILE.tgz", help="must not be there yet")
    return parser


def _add_word(
    words: argparse._SubParsersAction[_Parser],
    name: str,
    do: Callable[[argparse.Namespace], int],
    usage: str,
    epilog: str = "",
) -> _Parser:
    parser = words.add_parser(
        name,
        prog=f"python -m affinity {name}",
        usage=f"%(prog)s {usage}",
        description=f"{WORDS[name].capitalize()}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(do=do)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output, instead of text")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--picture", metavar="FILE", type=Path, help="draw an .svg or a .png")
