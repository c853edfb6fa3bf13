"""The command-line parser of ``python -m affinity``: its commands and the functions behind them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from affinity.cli import commands
from affinity.cli.help_text import DESCRIPTION, EXAMPLES, OTHER_TOOLS, RUN_EXAMPLES, WORDS
from affinity.cli.layout import WIDTH, showable
from affinity.cli.options.machine import add_machine_options, add_output_options
from affinity.cli.options.reading import count, file_name
from affinity.errors import AffinityError

_PROGRAM = "python -m affinity"
_BAD_REQUEST, _INTERRUPTED, _READER_GONE = 2, 130, 141


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit status; every known error is one line."""
    options = _options(arguments)
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
    """A parser that reports errors in one line, without the usage before it."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}",
            description=description,
            epilog=epilog,
            # Without a width it asks for the terminal's, and imports all of shutil to do so.
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=WIDTH),
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        line = f"error: {message}; see {self.prog} --help\n"
        self.exit(_BAD_REQUEST, showable(line, sys.stderr.encoding))


class _Word(NamedTuple):
    """A command: its function, its options, and the end of its help."""

    do: Callable[[argparse.Namespace], int]
    usage: str
    add_options: Callable[[argparse.ArgumentParser], None]
    epilog: str = ""


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options, with the arguments behind -- as `command`; exits if they are wrong."""
    words, command = _split(arguments)
    parser = _parser(words)
    options, rest = parser.parse_known_args(words[1:])
    runs = options.do is commands.run
    if rest:
        hint = "; a command stands behind --" if runs and not command else ""
        parser.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    if command and not runs:
        parser.error(f"nothing is run here, but behind -- stands {command[0]!r}")
    options.command = command
    return options


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    # Done by hand: what argparse does with -- differs between versions of Python.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


def _parser(words: Sequence[str]) -> _Parser:
    """The parser of one command: making all of them takes as long as reading a machine."""
    name = words[0] if words else "--help"
    if name not in _WORD_NAMED:
        _no_word(name)
    word = _WORD_NAMED[name]
    parser = _Parser(f"{_PROGRAM} {name}", word.usage, f"{WORDS[name].capitalize()}.", word.epilog)
    parser.set_defaults(do=word.do)
    word.add_options(parser)
    return parser


def _no_word(text: str) -> NoReturn:
    """Show the requested help, or list the commands."""
    parser = _Parser(_PROGRAM, "COMMAND [options]", DESCRIPTION, EXAMPLES)
    if text in ("-h", "--help"):
        parser.print_help()
        parser.exit()
    from difflib import get_close_matches

    close = get_close_matches(text, WORDS, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    parser.error(f"{text!r} is none of the commands {', '.join(WORDS)}{hint}")


def _show_options(parser: argparse.ArgumentParser) -> None:
    add_machine_options(parser)
    add_output_options(parser)


def _plan_options(parser: argparse.ArgumentParser) -> None:
    from affinity.cli.options.request import add_request_options

    add_request_options(parser)
    _show_options(parser)


def _check_options(parser: argparse.ArgumentParser) -> None:
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--pid", type=count, metavar="PID", help="look at a running process instead"
    )
    either.add_argument(
        "--machines",
        type=file_name,
        metavar="DIR",
        help="look at every recorded machine below a folder, in a line each",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_machine_options(parser, either=either)


def _run_options(parser: argparse.ArgumentParser) -> None:
    from affinity.cli.options.request import add_request_options
    from affinity.cli.options.running import add_run_options

    add_run_options(parser)
    add_request_options(parser)
    add_machine_options(parser, files=False)


def _snapshot_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=file_name, metavar="FILE.tgz", help="must not be there yet")


_WORD_NAMED = {
    "show": _Word(
        commands.show, "[--machine FILE] [--hbm NODES] [--json | --picture FILE]", _show_options
    ),
    "plan": _Word(commands.plan, "--workers N|UNIT [options]", _plan_options, OTHER_TOOLS),
    "check": _Word(
        commands.check, "[--pid PID | --machine FILE | --machines DIR] [--json]", _check_options
    ),
    "run": _Word(
        commands.run, "--workers N|UNIT [options] -- CMD ARGS...", _run_options, RUN_EXAMPLES
    ),
    "snapshot": _Word(commands.snapshot, "FILE.tgz", _snapshot_options),
}
