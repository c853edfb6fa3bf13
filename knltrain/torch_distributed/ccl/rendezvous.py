"""The rendezvous of the ranks of a new group: rank 0 writes its addresses to the group's store."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from knltrain.cluster.variables import set_unless_set, value_of
from knltrain.communication.control_message import MessageError, checked, decoded
from knltrain.communication.oneccl import Communicator, unique_id
from knltrain.communication.oneccl.library import library
from knltrain.communication.rendezvous.failure_detector import (
    FailureDetector,
    MemberDetector,
    RootDetector,
)
from knltrain.communication.rendezvous.interface_variables import GLOO, ONECCL, problem
from knltrain.communication.rendezvous.network_interface import (
    address_towards,
    interface_of,
    interfaces,
    is_loopback,
)
from knltrain.errors import CollectiveError, ConfigError, ExchangeTimeout, PeerLost
from knltrain.torch_distributed.ccl.collectives import OnecclCollectives
from knltrain.torch_distributed.ccl.gloo_collectives import GlooCollectives
from knltrain.torch_distributed.ccl.lane import Share, lane
from knltrain.torch_distributed.ccl.process_group import CclProcessGroup
from knltrain.torch_distributed.member import LAST_WORK_SECONDS
from knltrain.torch_distributed.order import Order
from knltrain.torch_distributed.store import PAUSE_SECONDS, boot_id, heard, told
from knltrain.torch_distributed.work import Operation

_KEY = "ccl"
_TOKEN_BYTES = 16
_SAID = {"boot": (str,), "addresses": (list,), "port": (int,), "token": (str,), "id": (str,)}
_ATTEMPT_SECONDS = 5.0
_WORK_SECONDS = 30.0
"""The least time limit for making a communicator, which takes work; a group's limit, perhaps one
second, is only for late ranks."""

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class _Meeting:
    """What the ranks have agreed on: a name that no other group has had, and oneCCL's id.

    `own` is the address from which this rank connected, if the program's store determines it.
    """

    token: str
    own: str | None
    common_id: bytes


def create_process_group(options: Any, _backend_options: Any) -> CclProcessGroup:
    """Find the other ranks of a group and make a communicator with them; torch calls this.

    oneCCL and gloo use the network interface that leads to the program's store, unless
    CCL_KVS_IFACE, FI_TCP_IFACE or GLOO_SOCKET_IFNAME name another. Raises ConfigError if that one
    leads nowhere, CollectiveError if oneCCL is missing or fails, ExchangeTimeout if a rank does not
    come within the group's timeout, PeerLost if one came and is gone.
    """
    library()
    rank, ranks = options.group_rank, options.group_size
    limit_seconds = options.timeout.total_seconds()
    numbers = list(options.global_ranks_in_group) or list(range(ranks))
    names = [f"rank {number}" for number in numbers]
    share = Share(lane(), f"the group of {_listed(numbers)}")
    watch: RootDetector | MemberDetector | None = None
    try:
        if rank == 0:
            watch, meeting = _let_in(options.store, names, share, limit_seconds)
        else:
            watch, meeting = _join(options.store, rank, names, share, limit_seconds)
        _check_interfaces(watch, names, share, limit_seconds)
        gloo = _beside(share, lambda: _gloo(options.store, rank, ranks, options.timeout, meeting))
        communicator = _in_turn(
            share, lambda: Communicator(rank, ranks, meeting.common_id), limit_seconds
        )
    except BaseException as error:
        _leave(share, watch, in_peace=False, why=str(error) or None)
        raise
    beside = GlooCollectives(gloo, rank, ranks, limit_seconds, lambda: share.error)
    collectives = OnecclCollectives(communicator, gloo, limit_seconds, lambda: share.error)
    order = Order("ccl beside")
    leave = partial(_leave_both, order, share, watch)
    return CclProcessGroup(collectives, share, beside, order, gloo, leave)


def _let_in(
    store: Store, names: Sequence[str], share: Share, limit_seconds: float
) -> tuple[RootDetector, _Meeting]:
    """Publish the addresses of rank 0 in the store, and wait for all others."""
    host = _host_of(store)
    own = address_towards(host) if host else None
    _take_interface(own)
    common_id = _in_turn(share, unique_id, limit_seconds)
    token = secrets.token_hex(_TOKEN_BYTES)
    listener = socket.create_server((own or "", 0), backlog=len(names))
    said = {
        "boot": boot_id(),
        "addresses": [own] if own else list(interfaces().values()),
        "port": listener.getsockname()[1],
        "token": token,
        "id": common_id.hex(),
    }
    watch = RootDetector(listener, token.encode(), names, share.fail, share.depart)
    try:
        with told(store, _KEY, json.dumps(said)):
            watch.await_all(limit_seconds, lambda: share.error or share.departure)
    except BaseException:
        watch.close(in_peace=False)
        raise
    return watch, _Meeting(token, own, common_id)


def _join(
    store: Store, rank: int, names: Sequence[str], share: Share, limit_seconds: float
) -> tuple[MemberDetector, _Meeting]:
    """Connect to rank 0 once it answers; the store may still have the entry of an earlier group."""
    deadline = time.monotonic() + limit_seconds
    while True:
        said = _said(heard(store, _KEY, deadline, limit_seconds))
        addresses = [(address, said["port"]) for address in _reachable(said)]
        attempt_seconds = min(_ATTEMPT_SECONDS, max(deadline - time.monotonic(), PAUSE_SECONDS))
        try:
            watch = MemberDetector(
                rank,
                addresses,
                said["token"].encode(),
                names,
                share.fail,
                share.depart,
                attempt_seconds,
                card=_interface_problems(),
            )
        except ExchangeTimeout as error:
            if time.monotonic() > deadline:
                raise ExchangeTimeout(f"waited {limit_seconds:g} s in vain: {error}") from error
            time.sleep(PAUSE_SECONDS)
            continue
        own = watch.own_address if _host_of(store) else None
        _take_interface(own)
        return watch, _Meeting(said["token"], own, bytes.fromhex(said["id"]))


def _said(text: str) -> dict[str, Any]:
    """Return what rank 0 has written; CollectiveError if another program has written it."""
    try:
        said = checked(decoded(text.encode()), _SAID)
        addresses = checked(dict(enumerate(said["addresses"])), {})
        checked(addresses, dict.fromkeys(addresses, (str,)))
        bytes.fromhex(said["id"])
        if not 0 < said["port"] < 2**16:
            raise MessageError(f"port {said['port']}")
    except ValueError as error:
        raise CollectiveError(
            f"the store of the program holds what no first rank of a group writes: {error}; "
            "expected a store that only the program's own ranks reach"
        ) from None
    return said


def _reachable(said: dict[str, Any]) -> list[str]:
    """Return the addresses at which rank 0 may be reached, the likeliest first."""
    addresses: list[str] = said["addresses"]
    if said["boot"] == boot_id():
        return sorted(addresses, key=is_loopback, reverse=True)
    leading = [address for address in addresses if not is_loopback(address)]
    if not leading:
        raise CollectiveError(
            f"the first rank of a new group is on another computer, and can be reached at "
            f"{', '.join(addresses)} alone: expected an address that leads there from here; does "
            "MASTER_ADDR, or /etc/hosts there, name that computer by its loopback?"
        )
    return leading


def _take_interface(address: str | None) -> None:
    """Make oneCCL use the interface of an address, not the first that it finds."""
    name = interface_of(address) if address else None
    if name is not None:
        set_unless_set({"CCL_KVS_IFACE": name, "FI_TCP_IFACE": name})


def _interface_problems() -> list[str | None]:
    """Return the problems with the user's interfaces, for ranks on one host and on several."""
    return [problem((*ONECCL, *GLOO), between_hosts) for between_hosts in (False, True)]


def _check_interfaces(
    watch: RootDetector | MemberDetector, names: Sequence[str], share: Share, limit_seconds: float
) -> None:
    """Raise ConfigError at all ranks if an interface named at one does not lead to all of them.

    Rank 0 has seen whether ranks are on other hosts.
    """
    if isinstance(watch, RootDetector):
        here = set(interfaces().values())
        is_between = any(address not in here for address in watch.their_addresses)
        found = {0: _interface_problems(), **watch.cards}
        wrong = [
            f"{names[rank]}: {each[is_between]}" for rank, each in found.items() if each[is_between]
        ]
        refused = wrong[0] if wrong else ""
        watch.say(refused)
    else:
        refused = watch.word(limit_seconds)
    if refused is None:
        raise share.error or share.departure or PeerLost(f"{names[0]} has left")
    if refused:
        raise ConfigError(refused)


def _gloo(store: Store, rank: int, ranks: int, timeout: timedelta, meeting: _Meeting) -> Any:
    """Make gloo's group of the same ranks."""
    kind: Any = dist.ProcessGroupGloo  # type: ignore[attr-defined, unused-ignore]
    options = kind._Options()
    options._timeout = timeout
    named = value_of("GLOO_SOCKET_IFNAME")
    if named:
        options._devices = [kind.create_device(interface=each) for each in named.split(",")]
    elif meeting.own:
        options._devices = [kind.create_device(hostname=meeting.own)]
    else:
        options._devices = [kind.create_default_device()]
    prefixed: Any = dist.PrefixStore(meeting.token, store)  # type: ignore[attr-defined, unused-ignore]
    return kind(prefixed, rank, ranks, options)


def _in_turn(share: Share, make: Callable[[], Made], limit_seconds: float) -> Made:
    """Call ``make`` with oneCCL, in the queue of operations of all groups of this process."""
    made: list[Made] = []
    making = Operation([], lambda: made.append(make()))
    share.put(making, is_awaited=True, limit=max(limit_seconds, _WORK_SECONDS)).wait()
    return made[0]


def _beside(share: Share, make: Callable[[], Made]) -> Made:
    """Call ``make``, which waits for the other ranks; raise the group's error if it fails."""
    made: list[Made] = []
    making = Operation([], lambda: made.append(make()))
    threading.Thread(target=making.run, name="gloo", daemon=True).start()
    while not making.is_completed():
        error = share.error or share.departure
        if error is not None:
            raise error
        time.sleep(PAUSE_SECONDS)
    making.wait()
    return made[0]


def _leave(
    share: Share, watch: FailureDetector | None, in_peace: bool = True, why: str | None = None
) -> None:
    """End a rank's part in a group."""
    share.close(LAST_WORK_SECONDS)
    if watch is not None:
        watch.close(in_peace, why)


def _leave_both(order: Order, share: Share, watch: FailureDetector) -> None:
    order.close(LAST_WORK_SECONDS)
    _leave(share, watch)


def _host_of(store: Any) -> str | None:
    """Return the host of the program's store, if it has one."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", None)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"ranks {shown}{' and more' if len(numbers) > 8 else ''}"
