"""Checks of the network interfaces that the user names to libraries by environment variables.

Libraries do not report a wrong one. With the loopback, oneCCL and MPI wait for ever, and gloo until
its timeout. libfabric ignores a name that it does not find.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence

from knltrain.cluster.variables import value_of
from knltrain.communication.rendezvous.network_interface import interfaces, is_loopback
from knltrain.errors import ConfigError

ONECCL = ("FI_TCP_IFACE", "CCL_KVS_IFACE")
"""Variables of oneCCL (a whole name) and of the libfabric below it (a part of a name)."""

MPI = ("FI_TCP_IFACE",)
"""Variable of libfabric below MPI: a whole name; libfabric ignores one that it does not find."""

GLOO = ("GLOO_SOCKET_IFNAME",)
"""Variable of torch for gloo: whole names, separated by commas."""

_OF_A_PART = "CCL_KVS_IFACE"


def check_named(variables: Sequence[str], between_hosts: bool) -> None:
    """Raise ConfigError if one of ``variables`` has an unusable value (see `problem`)."""
    found = problem(variables, between_hosts)
    if found is not None:
        raise ConfigError(found)


def problem(variables: Sequence[str], between_hosts: bool) -> str | None:
    """Return why the value of one of ``variables`` cannot be used; None if all can be.

    Every name must be an interface of this computer with an IPv4 address. If the ranks are on
    several hosts, it must not be the loopback.
    """
    for variable in variables:
        value = value_of(variable)
        for name in value.split(",") if value and variable in GLOO else [value]:
            if name and (wrong := _wrong(name, variable, between_hosts)):
                return f"{variable}={value}: {wrong}"
    return None


def _wrong(name: str, variable: str, between_hosts: bool) -> str | None:
    every = known = interfaces()
    if between_hosts:
        known = {each: own for each, own in known.items() if not is_loopback(own)}
    if _is_among(known, name, variable):
        return None
    if _is_among(every, name, variable):
        reason = "is the loopback, which leads to no other computer, and the ranks are on several"
    else:
        reason = "has no address there"
    listed = ", ".join(f"{each} {own}" for each, own in known.items()) or "it has none"
    return (
        f"'{name}' on {socket.gethostname()} {reason}: expected an interface that leads to the "
        f"other ranks ({listed}), or the variable not to be set, so that the one is taken that "
        "leads to the first rank"
    )


def _is_among(known: Iterable[str], name: str, variable: str) -> bool:
    """Tell whether a library finds an interface by this name."""
    return any(name in each if variable == _OF_A_PART else name == each for each in known)
