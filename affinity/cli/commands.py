"""The commands of ``python -m affinity``: each reads a machine, does its work and prints it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from affinity.cli.layout import showable

if TYPE_CHECKING:  # Each deed imports what it needs: nobody should wait to see a machine.
    from collections.abc import Iterable

    from affinity.cli.checking.finding import Finding
    from affinity.placement.plan import Plan
    from affinity.process.allowed import AllowedResources
    from affinity.topology import Topology


def show(options: argparse.Namespace) -> int:
    """Print, or draw, the machine."""
    topology, allowed = _machine(options)
    if options.picture:
        _draw(options.picture, topology)
    elif options.json:
        from affinity.cli.as_json import machine_json

        _print(machine_json(topology, allowed))
    else:
        from affinity.cli.show import show_machine

        _print(show_machine(topology, None if options.machine else allowed))
    return 0


def plan(options: argparse.Namespace) -> int:
    """Print, or draw, the places of the workers."""
    topology, made = _make_plan(options)
    if options.picture:
        _draw(options.picture, topology, made)
    elif options.json:
        from affinity.cli.as_json import plan_json

        _print(plan_json(made))
    else:
        from affinity.cli.show_plan import show_plan

        _print(show_plan(topology, made))
    return 0


def check(options: argparse.Namespace) -> int:
    """Print the findings; 1 if something is wrong."""
    from affinity.cli.checking.finding import exit_status, show_findings

    if options.machines is not None:
        return _sweep(options)
    findings = list(_findings(options))
    if options.json:
        from affinity.cli.as_json import findings_json

        _print(findings_json(findings))
    else:
        _print(show_findings(findings))
    return exit_status(findings)


def _findings(options: argparse.Namespace) -> Iterable[Finding]:
    if options.pid is not None:
        from affinity.cli.checking.process import process_findings

        return process_findings(options.pid)
    if options.machine is not None:
        from affinity.cli.checking.recorded import recorded_findings

        return recorded_findings(options.machine, options.hbm or ())
    from affinity.cli.checking.machine import machine_findings

    return machine_findings(*_machine(options))


def _sweep(options: argparse.Namespace) -> int:
    """Print a line for each recorded machine, as soon as it is known."""
    from affinity.cli.checking.recorded import sweep

    seen = []
    for machine in sweep(options.machines):
        seen.append(machine)
        if not options.json:
            _print(f"{machine.verdict:<4}  {machine.name}  {'; '.join(machine.words)}")
    if options.json:
        from affinity.cli.as_json import recorded_json

        _print(recorded_json(seen))
    return int(any(machine.verdict == "FAIL" for machine in seen))


def run(options: argparse.Namespace) -> int:
    """Start the command in all places, or in one, and return its exit status."""
    from affinity.cli.run import run_plan

    topology, made = _make_plan(options)
    return run_plan(topology, made, options)


def snapshot(options: argparse.Namespace) -> int:
    """Write the file."""
    from affinity.machine.snapshot import write_snapshot

    write_snapshot(options.file)
    _print(f"wrote {options.file}; to look at it: python -m affinity show --machine {options.file}")
    return 0


def _make_plan(options: argparse.Namespace) -> tuple[Topology, Plan]:
    from affinity.cli.options.request import FIT, narrowed, request_from, with_gpus
    from affinity.placement.place import place_workers

    request = request_from(options)
    topology, allowed = _machine(options)
    allowed = narrowed(allowed, topology, options)
    request = with_gpus(request, topology, options)
    if options.workers == FIT:
        from affinity.cli.fit_workers import place_as_many

        return topology, place_as_many(topology, allowed, request)
    return topology, place_workers(topology, allowed, request)


def _machine(options: argparse.Namespace) -> tuple[Topology, AllowedResources]:
    from affinity.machine.read import read_machine, read_topology
    from affinity.process.allowed import AllowedResources, read_allowed

    if path := getattr(options, "machine", None):
        topology = read_machine(path, options.hbm or ())
        return topology, AllowedResources(cpus=topology.cpus)
    allowed = read_allowed()
    return read_topology(allowed=allowed.cpus, hbm=options.hbm), allowed


def _draw(path: Path, topology: Topology, plan: Plan | None = None) -> None:
    from affinity.cli.picture.draw import write_picture

    write_picture(path, topology, plan)
    _print(f"wrote {path}")


def _print(text: str) -> None:
    sys.stdout.write(showable(text, sys.stdout.encoding) + "\n")
