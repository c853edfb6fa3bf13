"""Starts a command with its CPU mask, memory policy and environment already set.

    python -m affinity.exec --cpus 0,2-3 [--memory MODE:NODES [--memory-required]]
        [--env K=V]... [--die-with-parent PID] [--say-to FD] -- CMD ARGS...

Libraries count cpus, start threads and touch memory while they are imported. So this process sets
the mask, the memory policy and the environment first, and then becomes the command (exec).

MODE is one of Linux's:

- bind, preferred, preferred-many, interleave, weighted-interleave: take NODES;
- default, local: take none.

Without --memory the policy is inherited. default drops an inherited policy, except a bind: that is
a limit that somebody set (Slurm, numactl). A mode that the kernel does not know is replaced by the
next weaker one. Where policies are forbidden none is set; with --memory-required the command is not
started then. Messages go to standard error, or with --say-to to a file descriptor that is closed
when the command begins.

The command inherits the environment and what --env adds. Where --env says how OpenMP places its
threads (OMP_PLACES and the other `THREAD_PLACEMENT_VARIABLES`), inherited variables of that group
are dropped: those of Intel and GNU would override the standard's.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import AffinityError
from affinity.process.binding import bind_process
from affinity.process.memory_policy import apply_memory_policy, drop_inherited_policy
from affinity.process.policy import parse_policy
from affinity.process.thread_environment import THREAD_PLACEMENT_VARIABLES, thread_environment
from affinity.standard_streams import secure_standard_streams

if TYPE_CHECKING:
    from affinity.placement.plan import MemoryPlan, Placement

SAID_BY = "affinity.exec: "
"""The beginning of each message of this module."""

_PR_SET_PDEATHSIG = 1
_BAD_REQUEST, _PARENT_GONE, _CANNOT_RUN, _NOT_FOUND = 2, 125, 126, 127


def pinned_command(
    command: Sequence[str],
    cpus: Iterable[int],
    environment: Mapping[str, str] | None = None,
    die_with_parent: int | None = None,
    memory: MemoryPlan | None = None,
    say_to: int | None = None,
) -> list[str]:
    """The arguments that start `command` on `cpus` through this module, with this interpreter.

    - `environment` adds to the inherited one; if it places threads, it replaces all variables that
      place threads there.
    - `memory` is the command's memory policy; ``strict`` makes it required. Without `memory`, and
      with policy ``none``, the policy is inherited; in mode ``default`` only an inherited ``bind``
      stays.
    - With `die_with_parent`, the caller's process id, the kernel kills the command when the
      caller's *thread* that starts it ends, however it ends: start it from a thread that outlives
      it. That covers the command alone, not its children.
    - `say_to` is a file descriptor, open in the new process, for messages that otherwise go to
      standard error; it is closed when the command begins.
    """
    options = [f"--env={name}={value}" for name, value in (environment or {}).items()]
    if memory is not None and (memory.mode, memory.policy) != ("default", "none"):
        nodes = f":{format_cpulist(memory.nodes)}" if memory.nodes else ""
        options.append(f"--memory={memory.mode}{nodes}")
        options += ["--memory-required"] if memory.policy == "strict" else []
    if die_with_parent is not None:
        options.append(f"--die-with-parent={die_with_parent}")
    if say_to is not None:
        options.append(f"--say-to={say_to}")
    cpulist = f"--cpus={format_cpulist(cpus)}"
    return [sys.executable, "-m", "affinity.exec", cpulist, *options, "--", *command]


def worker_command(
    command: Sequence[str],
    placement: Placement,
    environment: Mapping[str, str] | None = None,
    die_with_parent: int | None = None,
    pin_threads: bool = False,
    say_to: int | None = None,
) -> list[str]:
    """The arguments that start `command` as the worker of `placement`, which it can read back.

    It gets the computing cpus, the memory policy and the thread counts of its place, the variable
    for `own_placement`, that which tells CUDA of its GPUs, and `environment` on top. With
    `pin_threads` each OpenMP thread stays on its core; otherwise threads roam. See `pinned_command`
    for the rest.
    """
    # Only the one who starts workers needs this, not affinity.exec itself, which must be fast.
    from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
    from affinity.process.visible_gpus import CUDA_VARIABLE

    variables = {
        **thread_environment(placement.threads, placement.cores if pin_threads else ()),
        PLACEMENT_VARIABLE: encode_placement(placement),
        **({CUDA_VARIABLE: ",".join(placement.visible_gpus)} if placement.visible_gpus else {}),
        **(environment or {}),
    }
    memory = placement.memory
    return pinned_command(command, placement.cpus, variables, die_with_parent, memory, say_to)


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the command, or exit 2 bad request, 125 parent gone, 126 not runnable, 127 not found.

    The reason is written to standard error, or to where --say-to says.
    """
    ours, command = _split(arguments)
    options = _parser().parse_args(ours)
    if options.say_to is not None:
        _say_to(options.say_to)
    if not command or not command[0]:
        _fail(_BAD_REQUEST, "no command given: write it after --")
    if options.die_with_parent is not None:
        _die_with_parent(options.die_with_parent)
    try:
        bind_process(parse_cpulist(options.cpus))
        _place_memory(options.memory, options.memory_required)
    except AffinityError as error:
        _fail(_BAD_REQUEST, str(error))
    try:
        os.execvpe(command[0], list(command), _environment(dict(options.env)))
    except FileNotFoundError:
        _fail(_NOT_FOUND, f"{command[0]!r} is not found: give its path or add it to PATH")
    except OSError as error:
        _fail(_CANNOT_RUN, f"{command[0]!r} cannot be run: {error.strerror}")


def assignment(text: str) -> tuple[str, str]:
    """Name and value of ``NAME=VALUE``, for argparse."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _say_to(descriptor: int) -> None:
    try:
        os.set_inheritable(descriptor, False)
        sys.stderr = open(descriptor, "w", buffering=1)  # noqa: SIM115 (until the end)
    except OSError as error:
        _fail(_BAD_REQUEST, f"--say-to {descriptor}: {error.strerror}")


def _place_memory(policy: str | None, required: bool) -> None:
    if policy is None:
        return
    mode, nodes = parse_policy(policy)
    if mode == "default":
        applied = drop_inherited_policy(required)
    else:
        applied = apply_memory_policy(mode, nodes, required)
    for note in applied.notes:
        _say(note)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    dropped = THREAD_PLACEMENT_VARIABLES if given.keys() & THREAD_PLACEMENT_VARIABLES else ()
    inherited = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**inherited, **given}


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    # Done by hand: what argparse does with a second -- differs between versions of Python.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m affinity.exec",
        usage="%(prog)s --cpus LIST [--memory MODE:NODES [--memory-required]] [--env K=V]... "
        "[--die-with-parent PID] [--say-to FD] -- CMD ARGS...",
        description="Start a command on the given cpus, with its memory on the given nodes.",
        allow_abbrev=False,
        # Without a width it asks for the terminal's, and imports all of shutil to do so.
        formatter_class=partial(argparse.HelpFormatter, width=100),
    )
    parser.add_argument("--cpus", required=True, metavar="LIST", help="OS ids, such as 0,2-3")
    parser.add_argument(
        "--memory", metavar="MODE:NODES", help="its memory policy, such as bind:2-3 or preferred:2"
    )
    parser.add_argument(
        "--memory-required", action="store_true", help="do not start where policies are forbidden"
    )
    parser.add_argument(
        "--env", action="append", default=[], type=assignment, metavar="K=V", help="set a variable"
    )
    parser.add_argument(
        "--say-to", type=int, metavar="FD", help="where notes and errors go, not standard error"
    )
    parser.add_argument(
        "--die-with-parent", type=int, metavar="PID", help="be killed when process PID ends"
    )
    return parser


def _die_with_parent(parent: int) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)) != 0:
        reason = os.strerror(ctypes.get_errno())
        _fail(_CANNOT_RUN, f"the kernel refuses to end this process with its parent: {reason}")
    # The parent may have ended before the kernel was told, and then no signal ever comes.
    if os.getppid() != parent:
        _fail(
            _PARENT_GONE,
            f"the parent is process {os.getppid()}, not {parent}: it has ended, or "
            "--die-with-parent names another process",
        )


def _say(text: str) -> None:
    sys.stderr.write(f"{SAID_BY}{text}\n")


def _fail(status: int, reason: str) -> NoReturn:
    _say(reason)
    raise SystemExit(status)


if __name__ == "__main__":
    secure_standard_streams()
    main(sys.argv[1:])
