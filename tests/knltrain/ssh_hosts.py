"""Hosts of this machine to which one gets by ssh: real servers, with keys of their own.

A server, and whoever goes to it, finds files of the test where the machine has ``/etc/hosts`` and
``/etc/ssh/ssh_config`` (mounted for these processes alone). What belongs to the machine and its
users stays as it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from knltrain.bench.nodes.hosts import Hosts

from .hosts import REPOSITORY, hosts_or_skip

NAMES = ("alpha", "beta")
UNUSED = "gamma"
"""A name whose address is that of no host."""

_START_SECONDS = 10.0
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_SERVER = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PermitUserEnvironment no
SetEnv PYTHONPATH={repository}
"""
_CLIENT = """
Host *
  IdentityFile {folder}/{key}
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""


class SshHosts:
    """``alpha``, ``beta``: hosts with a server each, which lets in who has the key.

    Commands are run on the first one, in ``folder``.
    """

    def __init__(self, made: Hosts, folder: Path, ended: ExitStack) -> None:
        self.made, self.folder = made, folder
        for key in ("host_key", "user_key", "wrong_key"):
            options = ("-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
            subprocess.run(["ssh-keygen", *options], check=True)
        of_host = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"{','.join(NAMES)} {of_host}")
        addresses = dict(zip((*NAMES, UNUSED), (*made.addresses, "10.77.0.99"), strict=True))
        lines = [f"{address} {name}" for name, address in addresses.items()]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        (folder / "sshd_config").write_text(_SERVER.format(folder=folder, repository=REPOSITORY))
        for key in ("user_key", "wrong_key"):
            (folder / f"with_{key}").write_text(_CLIENT.format(folder=folder, key=key))
        self._servers = [self._serve(number, ended) for number in range(len(NAMES))]

    def start(
        self,
        *command: str,
        cwd: Path,
        key: str = "user_key",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Run a command on the first host, where ssh has this key, in a session of its own."""
        return subprocess.Popen(
            [*self._inside(0, "hosts /etc/hosts", f"with_{key} /etc/ssh/ssh_config"), *command],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def processes_on(self, number: int) -> list[str]:
        """What runs on a host, but for its server."""
        own = (f"/proc/{self.made.names[number]}/ns/net", self._servers[number])
        network = Path(own[0]).readlink()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "ns/net").readlink() == network:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if entry.name not in (self.made.names[number], str(own[1])) and command:
                        found.append(f"{entry.name} {command}")
        return found

    def await_nothing(self, limit_seconds: float = 30.0) -> None:
        """Return once no host runs anything any more; fail if that takes too long."""
        deadline = time.monotonic() + limit_seconds
        while left := [self.processes_on(number) for number in range(len(NAMES))]:
            if not any(left):
                return
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def _serve(self, number: int, ended: ExitStack) -> int:
        """Start a host's server; return its process."""
        said = self.folder / f"server-{number}.log"
        run = ("mount -t tmpfs tmpfs /run && mkdir /run/sshd",)
        command = [
            *self._inside(number, "hosts /etc/hosts", first=run),
            *(_program("sshd"), "-D", "-E", str(said), "-f", str(self.folder / "sshd_config")),
        ]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        ended.callback(_end, process)
        deadline = time.monotonic() + _START_SECONDS
        while not (said.exists() and "Server listening" in said.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                _, error = process.communicate()
                pytest.skip(f"no server of ssh here: {error.decode().strip()}")
            time.sleep(0.02)
        return process.pid

    def _inside(self, number: int, *mounted: str, first: Sequence[str] = ()) -> list[str]:
        """The beginning of a command on a host, with files of ours over those of the machine."""
        folder = shlex.quote(str(self.folder))
        binds = [f"mount --bind {folder}/{each}" for each in mounted]
        steps = [f"hostname {NAMES[number]}", *binds, *first, 'exec "$@"']
        way = [*self.made.way(number), "unshare", "--mount", "--uts"]
        return [*way, "sh", "-c", " && ".join(steps), "sh"]


@contextmanager
def ssh_hosts_or_skip(folder: Path) -> Iterator[SshHosts]:
    """Two hosts for a block; the test skips where there can be none."""
    missing = [name for name in ("ssh", "ssh-keygen", "sshd", "mount") if not _found(name)]
    if missing:
        pytest.skip(f"hosts with ssh need {', '.join(missing)}: see scripts/system-packages")
    with hosts_or_skip(len(NAMES)) as made, ExitStack() as ended:
        yield SshHosts(made, folder, ended)


def _found(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def _program(name: str) -> str:
    """An absolute path, without which sshd does not start itself again for a connection."""
    found = _found(name)
    assert found is not None
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.communicate()
