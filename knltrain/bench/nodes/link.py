"""Measures the bandwidth of one TCP connection between two hosts: the bound of their exchanges.

python -m knltrain.bench.nodes.link receive ADDRESS     prints its port, then bytes per second
python -m knltrain.bench.nodes.link send ADDRESS PORT SECONDS
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from affinity import allowed_cpus, pinned_command
from knltrain.bench.nodes.hosts import Hosts
from knltrain.bench.step.peer_process import PeerError

MOST_BYTES, MOST_SECONDS = 512 << 20, 4.0
"""Limits of what is sent: the first one reached counts."""

_LONGEST_SECONDS = 60.0
_PIECE_BYTES = 1 << 18


def link_gbytes_per_second(
    made: Hosts, seconds: float = MOST_SECONDS, longest_seconds: float = _LONGEST_SECONDS
) -> float:
    """Send from the second host to the first; return 10^9 bytes per second of payload.

    Raises PeerError if the data of so many `seconds` do not arrive within `longest_seconds`.
    """
    receiver = subprocess.Popen(
        _on(made, 0, "receive", made.addresses[0]), stdout=subprocess.PIPE, text=True
    )
    try:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        send = _on(made, 1, "send", made.addresses[0], port, str(seconds))
        subprocess.run(send, check=True, timeout=longest_seconds, text=True, stderr=subprocess.PIPE)
        found, _ = receiver.communicate(timeout=longest_seconds)
        return float(found) / 1e9
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "").strip().rpartition("\n")[2]
        raise PeerError(
            f"the link between the hosts could not be measured: {said or error}"
        ) from error
    finally:
        receiver.kill()
        receiver.communicate()


def receive(address: str) -> None:
    """Receive from one connection, and print its bytes per second."""
    with socket.create_server((address, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    memory, count = bytearray(_PIECE_BYTES), 0
    with connection:
        begin = time.perf_counter()
        while got := connection.recv_into(memory):
            count += got
        print(count / (time.perf_counter() - begin))


def send(address: str, port: int, seconds: float) -> None:
    """Send MOST_BYTES to a receiver, or as much as it takes in `seconds`."""
    memory = bytes(_PIECE_BYTES)
    with socket.create_connection((address, port)) as connection:
        until = time.perf_counter() + seconds
        for _ in range(MOST_BYTES // _PIECE_BYTES):
            connection.sendall(memory)
            if time.perf_counter() > until:
                break


def _on(made: Hosts, number: int, *words: str) -> list[str]:
    """The command that runs this module on a host, and ends with this process."""
    command = [*made.way(number), sys.executable, "-m", __name__, *words]
    return pinned_command(command, allowed_cpus(), die_with_parent=os.getpid())


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
