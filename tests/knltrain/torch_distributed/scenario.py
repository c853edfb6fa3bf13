"""What one rank of the tests does: `scenario.py NAME BACKEND RANK RANKS STORE RESULT`.

What it found goes to RESULT, written by torch.save; an error as its kind and text.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import calls
import pytest
import torch
import torch.distributed as dist
from cases import CASES, RARE, Case, difference, values
from torch.nn.parallel import DistributedDataParallel
from training import Branches, in_parallel, parallel, sharded, train

import knltrain.torch_distributed  # noqa: F401 (registers the backend)
from knltrain.errors import CollectiveError, KnltrainError

Found = dict[str, Any]

LIMIT = timedelta(seconds=60)


def start(backend: str, rank: int, ranks: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        backend, store=dist.FileStore(store, ranks), rank=rank, world_size=ranks, timeout=LIMIT
    )


def common(backend: str, rank: int, ranks: int, store: str) -> Found:
    """What is seen of one group while all goes well, cases with few kernels only."""
    few = {name: case for name, case in CASES.items() if not name.endswith(RARE)}
    return {
        "cases": like_gloo(few),
        "refused": refused(ranks),
        "losses": in_parallel(rank, {"plain": {}}),
        "greatest": greatest(rank),
        "calls": calls.refused(dist.group.WORLD, dist.new_group(backend="gloo", timeout=LIMIT)),
        "wrong call": wrong_call(),
        "backend": backend_of_the_cpu(),
        "profiled": profiled(rank),
        "compiled": compiled(rank),
        "beside": beside(rank, few),
        "again": again(backend, rank, ranks, store),
    }


def beside(rank: int, few: dict[str, Case]) -> Found:
    """Cases in a thread of their own, against the same in this one; where sums may differ."""
    small = [name for name in few if not name.endswith(("0000", "0003")) and "all_red" not in name]
    found: Found = {"cases": len(small), "mean": torch.full((2,), rank + 1.0)}
    group = dist.group.WORLD
    here = {name: few[name](group) for name in small}
    there: dict[str, list[torch.Tensor]] = {}

    def ask() -> None:
        there.update({name: few[name](group) for name in small})
        dist.all_reduce(found["mean"], dist.ReduceOp.AVG)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    both = ((name, difference(name, there[name], here[name])) for name in small)
    found["differences"] = [f"{name}: {text}" for name, text in both if text]
    return found


def threads(rank: int, ranks: int) -> Found:
    """A group for each of three threads, which go on in another order at each rank."""
    named = {"main": dist.group.WORLD, "first": dist.new_group(), "second": dist.new_group()}
    found: dict[str, list[float]] = {name: [] for name in named}

    def ask(name: str) -> None:
        for turn in range(30):
            tensor = torch.full((1000,), rank + 1.0)
            dist.all_reduce(tensor, group=named[name])
            found[name].append(tensor[-1].item())
            time.sleep(0.002 * ((turn + rank + len(name)) % 3))

    others = [threading.Thread(target=ask, args=(name,)) for name in ("first", "second")]
    for thread in others[::-1] if rank else others:
        thread.start()
    ask("main")
    for thread in others:
        thread.join()
    return {"sums": found}


def wrong_call() -> str:
    """What is said of a call that no group takes."""
    try:
        dist.group.WORLD.reduce(torch.zeros(3), "root")  # type: ignore[union-attr]
    except TypeError as error:
        return str(error)
    return ""


def backend_of_the_cpu() -> Found:
    """What torch asks a group before it uses it, and how many operations are counted."""
    group: Any = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    dist.barrier()
    with pytest.raises(RuntimeError, match="serves cpu"):
        group._get_backend(torch.device("cuda"))
    return {
        "devices": [str(device) for device in group._device_types],
        "name": group._get_backend(torch.device("cpu"))._get_backend_name(),
        "counted": group._get_sequence_number_for_group() - before,
        "hooks": group._has_hooks(),
        "pending": pending(group),
    }


def pending(group: Any) -> list[list[bool]]:
    """Which operations are done once all have been waited for, asked here and by what one calls."""
    found: list[list[bool]] = []

    def slow() -> Any:
        return group.perform("slow", lambda *_: time.sleep(0.2), [], None, [])

    asked = [slow()]
    beside = threading.Thread(target=lambda: asked.append(slow()))
    beside.start()
    beside.join()
    group._wait_for_pending_works()
    found.append([one.is_completed() for one in asked])
    first = slow()
    called = first.get_future().then(lambda _: group._wait_for_pending_works())
    behind = slow()
    called.wait()
    found.append([one.is_completed() for one in (first, behind)])
    return found


def profiled(rank: int) -> Found:
    """What torch's profiler shows of operations: whether they are apart, shapes, and how often."""
    with torch.profiler.profile(record_shapes=True) as profiler:
        works = [dist.all_reduce(values(rank, 4), async_op=True) for _ in range(2)]
        dist.broadcast(values(rank, 3), 0)
        for work in works:
            work.wait()
    backend = dist.get_backend()
    return {
        name: [(it.is_async, it.input_shapes) for it in profiler.events() if it.name == name]
        for name in (f"{backend}:all_reduce", f"{backend}:broadcast")
    }


def compiled(rank: int) -> list[list[float]]:
    """Losses of a compiled model with buffers, and of the same without compiler."""
    found = []
    for compile_one in (lambda model: torch.compile(model, backend="eager"), lambda model: model):
        model = DistributedDataParallel(Branches())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found.append(train(compile_one(model), optimizer, rank, lambda step: True))
    return found


def greatest(rank: int) -> list[bytes]:
    """The greatest of numbers, one of which is none."""
    found = []
    for size in (2, 100, 50_001):
        tensor = values(rank, size)
        if rank == 0:
            tensor[::2] = torch.nan
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        found.append(bytes_of(tensor))
    return found


def every_case(rank: int, ranks: int) -> Found:
    return {"cases": like_gloo(CASES)}


def like_gloo(cases: dict[str, Case]) -> Found:
    """Cases on our group and on one of gloo: the differences, and digests of our results."""
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo", timeout=LIMIT)
    found: Found = {}
    for name, case in cases.items():
        got = case(ours)
        expected = case(gloo)
        digest = hashlib.sha256(b"".join(bytes_of(tensor) for tensor in got)).hexdigest()
        found[name] = difference(name, got, expected), digest
        if not all(bytes_of(a) == bytes_of(b) for a, b in zip(got, case(ours), strict=True)):
            found[name] = "not the same bits when repeated", digest
    return found


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def subgroups(rank: int, ranks: int) -> Found:
    """Groups of some ranks, at work at the same time, asked for in any order where that may be."""
    any_order = dist.get_backend() == "knlshm"
    evens = dist.new_group([0, 2])
    low = dist.new_group([0, 1])
    high = dist.new_group([1, 2])
    groups = [group for group in (evens, low, high) if group != dist.GroupMember.NON_GROUP_MEMBER]
    found: Found = {"many": []}
    for turn in range(20):
        mine = groups if (turn + rank * any_order) % 2 else groups[::-1]
        tensors = {group: values(rank, 1000 * turn + 1) for group in mine}
        works = [dist.all_reduce(tensors[group], group=group, async_op=True) for group in mine]
        everyone = values(rank, 100)
        dist.all_reduce(everyone)
        for work in works:
            work.wait()
        wanted = [
            sum(values(r, 1000 * turn + 1) for r in dist.get_process_group_ranks(group))
            for group in groups
        ]
        got = [tensors[group] for group in groups]
        found["many"].append(all(torch.allclose(a, b) for a, b in zip(got, wanted, strict=True)))
    dist.destroy_process_group(groups[0])
    found["after"] = values(rank, 10)
    dist.all_reduce(found["after"])
    return found


def refused(ranks: int) -> Found:
    """What cannot be exchanged, and that the group goes on afterwards."""
    attempts = {
        "meta": lambda: dist.all_reduce(torch.zeros(3, device="meta")),
        "overlapping": lambda: dist.all_reduce(torch.zeros(3, 1).expand(3, 4)),
        "sparse": lambda: dist.broadcast(torch.zeros(3, 4).to_sparse(), 0),
        "sparse maximum": lambda: dist.all_reduce(torch.zeros(3, 4).to_sparse(), dist.ReduceOp.MAX),
        "root": lambda: dist.group.WORLD.broadcast(torch.zeros(3), 5),
        "monitored": lambda: dist.group.WORLD.monitored_barrier(),
        "split": lambda: dist.group.WORLD.split_group([0]),
        "merged": lambda: dist.group.WORLD.merge_remote_group(dist.HashStore(), 1),
        "hook": lambda: dist.group.WORLD._register_on_completion_hook(print),
        "too few": lambda: dist.group.WORLD.allgather([torch.zeros(3)], torch.zeros(3)),
        "dtype": lambda: dist.all_reduce(torch.zeros(3, dtype=torch.float8_e4m3fn)),
        "mean of integers": lambda: dist.all_reduce(
            torch.zeros(3, dtype=torch.int32), dist.ReduceOp.AVG
        ),
        "bits of floats": lambda: dist.all_reduce(torch.zeros(3), dist.ReduceOp.BAND),
        "sizes": lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(3)),
        "splits": lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 2], [1, 3]),
        "odd": lambda: dist.all_gather([torch.zeros(4)] * ranks, torch.zeros(3)),
    }
    found: Found = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except CollectiveError as error:
            found[name] = str(error)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    found["after"] = tensor.tolist()
    return found


def different(rank: int, ranks: int) -> Found:
    """Ranks that call different operations."""
    if rank == 0:
        dist.all_reduce(torch.zeros(10))
    else:
        dist.broadcast(torch.zeros(30), 0)
    return {}


def last_sleeps(rank: int, ranks: int, limit: timedelta = LIMIT) -> Found:
    """The last rank does not come; what the others wait in comes in the order of `attempts`."""
    dist.barrier()
    dist.group.WORLD.set_timeout(limit)  # not for the ranks to meet
    if rank == ranks - 1:
        say("asleep")
        time.sleep(1000)
    works = [dist.all_reduce(torch.zeros(10), async_op=True)]
    works.append(dist.broadcast(torch.zeros(10), 0, async_op=True))
    future = works[0].get_future()
    received = dist.irecv(torch.zeros(10), ranks - 1)
    found: Found = {}
    attempts = {
        "work": works[0].wait,
        "next": works[1].wait,
        "future": future.wait,
        "received": lambda: received.wait(limit),
        "later": lambda: dist.all_reduce(torch.zeros(10)),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except (KnltrainError, RuntimeError) as error:
            found[name] = type(error).__name__, str(error)
    found["success"] = works[0].is_success()
    return found


def last_leaves(rank: int, ranks: int) -> Found:
    """The last rank leaves while the others want to go on."""
    dist.barrier()
    if rank == ranks - 1:
        return {}
    begun = time.monotonic()
    try:
        dist.all_reduce(torch.zeros(10))
    except KnltrainError as error:
        return {
            "error kind": type(error).__name__,
            "text": str(error),
            "seconds": time.monotonic() - begun,
        }
    return {}


def last_leaves_late(rank: int, ranks: int) -> Found:
    """All has been done, and the last rank has something of its own to do."""
    dist.barrier()
    if rank == ranks - 1:
        time.sleep(7)
    return {}


def inside_ddp(rank: int, ranks: int) -> Found:
    """The last rank is gone in the middle of a training step."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 5))
    if rank == ranks - 1:
        say("asleep")
        time.sleep(1000)
    model(torch.ones(2, 5)).sum().backward()
    return {}


def again(backend: str, rank: int, ranks: int, store: str) -> Found:
    """Groups made, destroyed and made again with one store, and one that is just dropped."""
    found: Found = {"sums": [], "held": []}
    # The last store on a file removes it, even if another rank has just begun to write anew.
    kept = dist.FileStore(store, ranks)
    for turn in range(3):
        if turn:
            start(backend, rank, ranks, store)
        tensor = torch.full((3,), float(turn + 1))
        dist.all_reduce(tensor)
        found["sums"].append(tensor.tolist())
        dist.destroy_process_group()
        found["held"].append(Path("/proc/self/maps").read_text().count("memfd:knltrain"))
        found["threads"] = [thread.name for thread in threading.enumerate()]
    start(backend, rank, ranks, store)
    del kept
    return found


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    name, backend, rank, ranks, store, result = sys.argv[1:]
    found: Found
    try:
        start(backend, int(rank), int(ranks), store)
        if name == "common":
            found = common(backend, int(rank), int(ranks), store)
        elif name == "sharded":
            found = sharded(int(rank), int(ranks), Path(store).parent)
        else:
            found = SCENARIOS[name](int(rank), int(ranks))
        dist.destroy_process_group()
    except (KnltrainError, RuntimeError) as error:
        found = {"error": (type(error).__name__, str(error)), "trace": traceback.format_exc()}
    torch.save(found, result)


SCENARIOS = {
    "every_case": every_case,
    "subgroups": subgroups,
    "threads": threads,
    "different": different,
    "last_sleeps": last_sleeps,
    "last_sleeps_long": functools.partial(last_sleeps, limit=timedelta(seconds=2)),
    "last_leaves": last_leaves,
    "last_leaves_late": last_leaves_late,
    "inside_ddp": inside_ddp,
    "parallel": parallel,
}

if __name__ == "__main__":
    main()
