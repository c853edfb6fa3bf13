"""This computer's addresses, and the network interfaces that have them."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress

from knltrain.errors import CollectiveError

_SIOCGIFADDR = 0x8915
_REQUEST_BYTES = 256
_DISCARD_PORT = 9


def interfaces() -> dict[str, str]:
    """Return the IPv4 address of every interface that has one, by the interface's name."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack(f"{_REQUEST_BYTES}s", name.encode()[:15])
            with suppress(OSError):  # it has none
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def address_towards(host: str) -> str:
    """Return the address from which this computer would reach a host.

    Raises CollectiveError if the host has no address, or no interface leads there.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
            trial.connect((host, _DISCARD_PORT))  # sends nothing
            return str(trial.getsockname()[0])
    except OSError as error:
        known = ", ".join(f"{name} {address}" for name, address in interfaces().items())
        raise CollectiveError(
            f"no way from {socket.gethostname()} to {host!r}: {error}; expected a host that one of "
            f"this computer's interfaces leads to ({known})"
        ) from error


def is_loopback(address: str) -> bool:
    """Tell whether an address is that of the loopback."""
    return ipaddress.ip_address(address).is_loopback


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has an address."""
    for name, own in interfaces().items():
        if own == address:
            return name
    return None
