"""The backend ``ccl`` between hosts that have nothing but a network in common."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from knltrain.bench.nodes.hosts import Hosts
from knltrain.communication.oneccl import installed

from ...hosts import hosts_or_skip, run
from ...marks import by_cost

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed() is None, reason="oneCCL is not installed"),
]

PROGRAM = """
import os, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
import knltrain.torch_distributed

rank, ranks, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4]
dist.init_process_group(
    "ccl", init_method=f"tcp://{sys.argv[3]}:29511", rank=rank, world_size=ranks,
    timeout=timedelta(seconds=60),
)
tensor = torch.full((100_000,), rank + 1.0)
dist.all_reduce(tensor)
everyone = [None] * ranks
dist.all_gather_object(everyone, os.environ["FI_TCP_IFACE"] + os.environ["CCL_KVS_IFACE"])
print(f"found {tensor[-1].item()} {everyone}", flush=True)
if what == "wait":
    if rank:
        time.sleep(1000)
    begun = time.monotonic()
    try:
        dist.all_reduce(tensor)
    except Exception as error:
        print(f"after {time.monotonic() - begun} s {type(error).__name__} {error}", flush=True)
        raise SystemExit(9)
dist.destroy_process_group()
"""


@pytest.fixture
def three() -> Iterator[Hosts]:
    with hosts_or_skip(3) as made:
        yield made


def _start(
    made: Hosts,
    folder: Path,
    what: str,
    places: Sequence[int] = (0, 1, 2),
    variables: Mapping[int, Mapping[str, str]] | None = None,
) -> list[subprocess.Popen[str]]:
    """A rank on each of the hosts of these numbers, with `variables` by rank."""
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    words = [str(len(places)), made.addresses[0], what]
    return [
        run(made, place, [str(program), str(rank), *words], (variables or {}).get(rank))
        for rank, place in enumerate(places)
    ]


def _found(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("found"):
            return line
    raise AssertionError("".join(said))


def test_ranks_reduce_by_the_interface_that_leads_to_the_first(
    three: Hosts, tmp_path: Path
) -> None:
    for process in _start(three, tmp_path, "end"):
        assert _found(process) == f"found 6.0 {['eth0eth0'] * 3}\n"
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output


def test_host_that_is_cut_off_is_told_to_who_waits_for_it(three: Hosts, tmp_path: Path) -> None:
    processes = _start(three, tmp_path, "wait")
    try:
        for process in processes:
            _found(process)
        time.sleep(0.5)
        three.cut_off(2)
        output, _ = processes[0].communicate(timeout=60)
        assert processes[0].returncode == 9, output
        seconds, said = float(output.split()[1]), output.partition("PeerLost ")[2]
        assert said.startswith("rank 2 is gone")
        assert seconds < 30
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    "variable", by_cost(["FI_TCP_IFACE", "CCL_KVS_IFACE", "GLOO_SOCKET_IFNAME"], "FI_TCP_IFACE")
)
def test_loopback_is_refused_where_a_rank_is_on_another_host(
    three: Hosts, tmp_path: Path, variable: str
) -> None:
    """By the rank that was told to take it, though the first one is on its host; all hear of it."""
    told = {1: {variable: "lo"}}
    for process in _start(three, tmp_path, "end", places=(0, 0, 1), variables=told):
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 1, output
        assert f"{variable}=lo: 'lo' on" in output
        assert "(eth0 10.77.0.1), or the variable not to be set" in output


def test_loopback_serves_ranks_of_one_host(three: Hosts, tmp_path: Path) -> None:
    told = {rank: {"FI_TCP_IFACE": "lo", "CCL_KVS_IFACE": "lo"} for rank in range(2)}
    for process in _start(three, tmp_path, "end", places=(0, 0), variables=told):
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        assert "found 3.0" in output


def test_rank_that_goes_to_the_wrong_address_names_it(three: Hosts, tmp_path: Path) -> None:
    lost = run(three, 1, ["-c", WRONG])
    output, _ = lost.communicate(timeout=60)
    assert "no way from" in output
    assert "10.99.0.1" in output
    assert "eth0 10.77.0.2" in output


WRONG = """
from knltrain.communication.rendezvous.network_interface import address_towards
address_towards("10.99.0.1")
"""
