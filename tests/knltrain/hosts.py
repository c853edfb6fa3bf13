"""Hosts of their own addresses on this machine: network namespaces on one bridge, for the tests."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_MADE = itertools.count()
REPOSITORY = Path(__file__).parents[2]


def why_none() -> str | None:
    """Return why there can be no hosts here; None if there can."""
    if shutil.which("ip") is None:
        return "no ip (package iproute2)"
    trial = f"kn{os.getpid()}try"
    if subprocess.run(["ip", "netns", "add", trial], capture_output=True).returncode:
        return "this user may not make network namespaces"
    _ip("netns", "del", trial)
    return None


class Hosts:
    """``count`` hosts, 10.77.0.1 and up, that reach each other by ``eth0`` and nothing else.

    ``names`` are those of their network namespaces.
    """

    def __init__(self, count: int) -> None:
        made = f"kn{os.getpid()}x{next(_MADE)}"
        self.names = [f"{made}h{number}" for number in range(count)]
        self._bridge = f"{made}b"
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]
        _ip("netns", "add", self._bridge)
        _ip("-n", self._bridge, "link", "add", "switch", "type", "bridge")
        _ip("-n", self._bridge, "link", "set", "switch", "up")
        for number, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            _ip("netns", "add", name)
            link = ["type", "veth", "peer", "name", f"port{number}", "netns", self._bridge]
            _ip("-n", name, "link", "add", "eth0", *link)
            _ip("-n", self._bridge, "link", "set", f"port{number}", "master", "switch", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _ip("-n", name, "link", "set", interface, "up")

    def run(
        self,
        number: int,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Run Python on a host."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[number], sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def cut_off(self, number: int) -> None:
        """Let nothing reach a host any more, nor leave it."""
        _ip("-n", self._bridge, "link", "set", f"port{number}", "down")

    def end(self) -> None:
        """Take them away."""
        for name in (*self.names, self._bridge):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    made = Hosts(count)
    try:
        yield made
    finally:
        made.end()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
