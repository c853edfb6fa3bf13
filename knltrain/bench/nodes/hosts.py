"""Emulated hosts on this machine: network namespaces with their own addresses around one switch.

A namespace lives as long as a process in it. Each has an idle process that ends with its parent, so
no namespace stays behind, however the parent ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, final

from affinity import allowed_cpus, pinned_command
from knltrain.bench.nodes import cables
from knltrain.errors import KnltrainError

WAY: Final = "nsenter --net=/proc/{host}/ns/net"
"""For `knltrain launch --via`."""

_PROGRAMS = ("ip", "tc", "nsenter", "unshare")
_START_SECONDS = 10.0
_LOOK_SECONDS = 0.01
_NETWORK = "10.77.0"
_BURST_SECONDS, _LEAST_BURST_BYTES, _MOST_BURST_BYTES = 0.002, 2 << 16, 2 << 20
"""Bytes of a burst after a pause; the least is two frames for segmentation offload."""
_LONGEST_WAIT = "20ms"


class NoHosts(KnltrainError):  # noqa: N818
    """Hosts cannot be emulated on this machine; the message says why."""


@final
class Hosts:
    """``count`` hosts, 10.77.0.1 and up, that reach each other by ``eth0`` and nothing else.

    Each sends at most ``gbits`` Gbit/s, None: as fast as it can. The kernel's token buckets limit
    it; after a pause they let a burst of 2 ms pass, but at least 128 KiB and at most 2 MiB.
    Messages arrive ``latency_us`` microseconds later, which costs a part of a core (see `cables`).
    All hosts share the cores, the memory and the files of this machine. Raises NoHosts where
    programs or privileges are missing.
    """

    def __init__(self, count: int, gbits: float | None = None, latency_us: float = 0.0) -> None:
        missing = [program for program in _PROGRAMS if shutil.which(program) is None]
        if missing:
            raise NoHosts(f"hosts need {', '.join(missing)}: install iproute2 and util-linux")
        self.addresses = [f"{_NETWORK}.{number + 1}" for number in range(count)]
        with ExitStack() as until_made:
            self._ended = until_made
            self._switch, *self._holders = (self._namespace() for _ in range(count + 1))
            self._run(self._switch, "ip", "link", "add", "switch", "type", "bridge")
            self._run(self._switch, "ip", "link", "set", "switch", "up")
            if latency_us:
                self._lay_cables(latency_us)
            for number in range(count):
                self._connect(number, laid=latency_us > 0)
            if gbits is not None:
                self.limit(gbits)
            self._ended = until_made.pop_all()

    @property
    def names(self) -> list[str]:
        """Their names, as `WAY` takes them."""
        return [str(holder) for holder in self._holders]

    def way(self, number: int) -> list[str]:
        """Return the beginning of a command that runs on a host."""
        return _inside(self._holders[number])

    def limit(self, gbits: float) -> None:
        """Let each host send at most so many Gbit/s from now on, also while something is sent."""
        burst = str(_burst_bytes(gbits))
        bucket = ("rate", f"{gbits}gbit", "burst", burst, "latency", _LONGEST_WAIT)
        for host in self._holders:
            self._run(host, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *bucket)

    def cut_off(self, number: int) -> None:
        """Drop all traffic to and from a host."""
        self._run(self._switch, "ip", "link", "set", f"port{number}", "down")

    def end(self) -> None:
        """Remove the hosts."""
        self._ended.close()

    def _namespace(self) -> int:
        """Return the process id of an idle process in a new network namespace."""
        command = ["unshare", "--net", "sleep", "infinity"]
        holder = subprocess.Popen(
            pinned_command(command, allowed_cpus(), die_with_parent=os.getpid()),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._ended.callback(_end, holder)
        own = Path("/proc/self/ns/net").readlink()
        deadline = time.monotonic() + _START_SECONDS
        while not _is_elsewhere(holder.pid, own):
            if holder.poll() is not None:
                _, said = holder.communicate()
                raise NoHosts(
                    f"this user may not make network namespaces ({said.strip()}): root may"
                )
            if time.monotonic() > deadline:
                raise NoHosts(f"no network namespace within {_START_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)
        return holder.pid

    def _lay_cables(self, latency_us: float) -> None:
        """Start the process that carries frames, and wait for its devices."""
        places = [str(each) for each in (self._switch, *self._holders)]
        command = [sys.executable, "-m", cables.__name__, str(latency_us / 1e6), *places]
        carrier = subprocess.Popen(
            pinned_command(command, allowed_cpus(), die_with_parent=os.getpid()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._ended.callback(_end, carrier)
        assert carrier.stdout is not None
        if not carrier.stdout.readline():
            _, said = carrier.communicate()
            raise NoHosts(f"no cables with a latency: {said.strip()}")

    def _connect(self, number: int, laid: bool) -> None:
        """Connect a host to the switch."""
        host, port = self._holders[number], f"port{number}"
        if not laid:
            ends = ("type", "veth", "peer", "name", port, "netns", str(self._switch))
            self._run(host, "ip", "link", "add", "eth0", *ends)
        self._run(self._switch, "ip", "link", "set", port, "master", "switch", "up")
        self._run(host, "ip", "addr", "add", f"{self.addresses[number]}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            self._run(host, "ip", "link", "set", interface, "up")

    @staticmethod
    def _run(where: int, *command: str) -> None:
        done = subprocess.run([*_inside(where), *command], capture_output=True, text=True)
        if done.returncode:
            raise NoHosts(f"'{' '.join(command)}' failed: {done.stderr.strip()}")


@contextmanager
def hosts(count: int, gbits: float | None = None, latency_us: float = 0.0) -> Iterator[Hosts]:
    """Hosts that are removed after the block."""
    made = Hosts(count, gbits, latency_us)
    try:
        yield made
    finally:
        made.end()


def _burst_bytes(gbits: float) -> int:
    whole = int(gbits * 1e9 / 8 * _BURST_SECONDS)
    return min(max(whole, _LEAST_BURST_BYTES), _MOST_BURST_BYTES)


def _inside(holder: int) -> list[str]:
    return WAY.format(host=holder).split()


def _is_elsewhere(pid: int, own: Path) -> bool:
    """Whether a process is alive in another network namespace than ours."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() != own
    except OSError:
        return False


def _end(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.communicate()
