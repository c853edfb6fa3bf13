"""The collective between nodes by a backend of torch.distributed: oneCCL's, or gloo."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from knltrain.cluster.variables import set_unless_set
from knltrain.cluster.worker import MeetingPoint
from knltrain.communication.communication_cores import made_there, take_place_behind
from knltrain.communication.internode.collective import ByteArray, NodeCollective
from knltrain.communication.internode.torch_failure import first_line, kind_of
from knltrain.communication.rendezvous.interface_variables import GLOO, check_named
from knltrain.communication.rendezvous.network_interface import interface_of, is_loopback
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError
from knltrain.vectors import FloatArray


@final
class TorchCollective(NodeCollective):
    """The first worker of ``node``, one of ``nodes`` that find each other at ``meeting_point``.

    The threads of the backend run on the cores that the worker's placement reserves for
    communication. If it reserves none, they do not preempt those that compute
    (`take_place_behind`).

    ``name`` is that of a backend for CPU tensors, "ccl" or "gloo". An operation may take
    ``timeout_seconds``; the rendezvous may take ``longest_seconds``, and so may a `gather` that
    asks for it. Raises CollectiveError, ExchangeTimeout or PeerLost if the others cannot be
    reached, ConfigError if the network interface that the user names does not lead to them.
    """

    def __init__(
        self,
        name: str,
        node: int,
        nodes: int,
        meeting_point: MeetingPoint,
        timeout_seconds: float,
        longest_seconds: float,
    ) -> None:
        self.name, self.node, self.nodes = name, node, nodes
        self._timeout_seconds = timeout_seconds
        if name == "gloo":
            _take_interface(meeting_point.own_address)
        made_there(lambda: self._meet(meeting_point, longest_seconds), take_place_behind)

    def _meet(self, meeting_point: MeetingPoint, longest_seconds: float) -> None:
        name, node, nodes = self.name, self.node, self.nodes
        longest = timedelta(seconds=longest_seconds)
        try:
            store: Any = dist.TCPStore(  # type: ignore[attr-defined, unused-ignore]
                meeting_point.host,
                meeting_point.port,
                nodes,
                node == 0,
                longest,
                wait_for_workers=False,
                master_listen_fd=meeting_point.fd,
            )
            dist.init_process_group(name, store=store, rank=node, world_size=nodes, timeout=longest)
        except KnltrainError:
            raise
        except (RuntimeError, ValueError) as error:
            raise CollectiveError(
                f"node {node} cannot reach the others by '{name}' at {meeting_point.host}, port "
                f"{meeting_point.port}: {first_line(error)}; exchange.between_nodes names another "
                "way"
            ) from error

    def all_reduce(self, values: FloatArray, at: int = 0) -> None:  # noqa: ARG002
        """Replace ``values`` (n,) by their sum over all nodes."""
        self._finish("all_reduce", dist.all_reduce(torch.from_numpy(values), async_op=True))

    def reduce(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) of node 0 by the sum."""
        self._finish("reduce", dist.reduce(torch.from_numpy(values), 0, async_op=True))

    def broadcast(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by those of node 0."""
        self._finish("broadcast", dist.broadcast(torch.from_numpy(values), 0, async_op=True))

    def gather(
        self, values: npt.NDArray[np.float64], timeout_seconds: float | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the ``values`` (k,) of all nodes, (nodes, k)."""
        found = [
            torch.zeros(len(values), dtype=torch.float64, device="cpu") for _ in range(self.nodes)
        ]
        own = torch.from_numpy(np.ascontiguousarray(values))
        self._finish("all_gather", dist.all_gather(found, own, async_op=True), timeout_seconds)
        return np.stack([each.numpy() for each in found])

    def all_gather(self, given: ByteArray, found: ByteArray) -> None:
        """Gather the ``given`` bytes (b,) of all nodes to ``found`` (nodes, b)."""
        own, of_all = torch.from_numpy(given), [torch.from_numpy(row) for row in found]
        self._finish("all_gather", dist.all_gather(of_all, own, async_op=True))

    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Send row r of ``given`` (nodes, b) to node r; receive into ``found`` (nodes, b)."""
        own, of_all = torch.from_numpy(given.reshape(-1)), torch.from_numpy(found.reshape(-1))
        self._finish("all_to_all", dist.all_to_all_single(of_all, own, async_op=True))

    def close(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()

    def _finish(self, what: str, work: Any, timeout_seconds: float | None = None) -> None:
        """Wait for an operation; translate its failure into an error of knltrain."""
        limit_seconds = max(timeout_seconds or 0.0, self._timeout_seconds)
        try:
            work.wait(timedelta(seconds=limit_seconds))
        except KnltrainError:
            raise
        except RuntimeError as error:
            kind, text = kind_of(error), first_line(error)
            if kind is ExchangeTimeout:
                raise ExchangeTimeout(
                    f"{what} between nodes by '{self.name}' took more than {limit_seconds:g} s: "
                    f"{text}; if a node can be so much slower than the others, raise "
                    "exchange.timeout_seconds"
                ) from error
            raise kind(f"{what} between nodes by '{self.name}' failed: {text}") from error


def _take_interface(own_address: str) -> None:
    """Have gloo use the interface of an address, unless the user names another usable one."""
    check_named(GLOO, between_hosts=not is_loopback(own_address))
    interface = interface_of(own_address)
    if interface is not None:
        set_unless_set({"GLOO_SOCKET_IFNAME": interface})
