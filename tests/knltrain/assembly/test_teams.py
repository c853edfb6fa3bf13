from __future__ import annotations

import os

from knltrain.assembly import build_method, network_size
from knltrain.assembly.teams import build_team
from knltrain.cluster.worker import MeetingPoint
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.transports import joining
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.node_shared import NodeShared


def test_worker_alone_needs_no_segment(config):
    team = build_team(config(), (), 0)
    assert isinstance(team, Loopback)
    assert team.local.size == network_size(config())


def test_several_workers_meet_in_the_segment(config):
    memory = NodeMemory(network_size(config()), 2, build_method(config(), 2), "memfd")
    team = build_team(config(), [os.dup(fd) for fd in memory.fds_of(1)], 1)
    assert isinstance(team, NodeShared)
    assert (team.rank, team.workers) == (1, 2)
    team.close()
    memory.close()


def test_worker_alone_whose_layers_go_along_trees_needs_no_mpi(config):
    team = build_team(config(exchange__method="caffegpi"), (), 0)
    assert isinstance(team, JobTeam)
    assert team.workers == 1
    team.close()


def test_center_of_visitors_lies_at_the_configured_servers(config, monkeypatch):
    chosen: list[object] = []

    def join(*_: object, servers: object, **__: object) -> None:
        chosen.append(servers)

    monkeypatch.setattr(joining, "join_for_one_sided", join)
    place = MeetingPoint("127.0.0.1", 1, "127.0.0.1")
    for servers in (None, (1,)):
        two_nodes = config(nodes=2, workers=1, exchange__method="seasgd", exchange__servers=servers)
        build_team(two_nodes, (0,), 0, place)
    assert chosen == [None, (1,)]
