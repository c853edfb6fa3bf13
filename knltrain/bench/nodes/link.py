"""What one TCP connection between two hosts carries: the bound of what is exchanged there.

python -m knltrain.bench.nodes.link receive ADDRESS     prints its port, then the seconds
python -m knltrain.bench.nodes.link send ADDRESS PORT
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

from knltrain.bench.nodes.hosts import Hosts
from knltrain.bench.peer_process import PeerError

BYTES = 512 << 20
_PIECE_BYTES = 1 << 20


def link_gbytes_per_second(made: Hosts, longest_seconds: float = 60.0) -> float:
    """Send BYTES from the second host to the first; return 10^9 bytes per second of payload.

    Raises PeerError if they do not arrive.
    """
    own = [sys.executable, "-m", __name__]
    receiver = subprocess.Popen(
        [*made.way(0), *own, "receive", made.addresses[0]], stdout=subprocess.PIPE, text=True
    )
    try:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        send = [*made.way(1), *own, "send", made.addresses[0], port]
        subprocess.run(send, check=True, timeout=longest_seconds, stderr=subprocess.DEVNULL)
        seconds, _ = receiver.communicate(timeout=longest_seconds)
        return BYTES / float(json.loads(seconds)) / 1e9
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise PeerError(f"the link between the hosts could not be measured: {error}") from error
    finally:
        receiver.kill()
        receiver.communicate()


def receive(address: str) -> None:
    """Take BYTES from whoever comes, and print how long they took."""
    with socket.create_server((address, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    memory, left = bytearray(_PIECE_BYTES), BYTES
    with connection:
        begin = time.perf_counter()
        while left and (got := connection.recv_into(memory)):
            left -= got
        print(json.dumps(time.perf_counter() - begin if not left else None))


def send(address: str, port: int) -> None:
    """Give BYTES to a receiver."""
    memory = bytes(_PIECE_BYTES)
    with socket.create_connection((address, port)) as connection:
        for _ in range(BYTES // _PIECE_BYTES):
            connection.sendall(memory)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(sys.argv[2], int(sys.argv[3]))
