# ruff: noqa: E402 (what is set before torch's tests are imported decides what they are)
"""One rank that runs PyTorch's generic tests of backends: `generic_rank.py BACKEND RANK RANKS`.

Says that it is ready, reads lines `TEST FOLDER`, answers each with a line of JSON: how the test
went. A line `stop` ends the test that runs. The tests come with torch. Those written for GPUs run
on the CPU, those for one backend alone run for all.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import select
import signal
import sys
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

BACKEND, RANK, RANKS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
LIMIT_SECONDS = 20
TEST_SECONDS = 300
LARGEST_IMAGE, IMAGE_AXES = 20, 4
TRACE_SECONDS = 140
"""After how long a test shows where it is."""
PIPE_BYTES = 60_000
STOP = "stop\n"

os.environ.update(BACKEND="gloo", WORLD_SIZE=str(RANKS), INIT_METHOD="file:///nowhere")
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")

# Torch's tests import a package that is not installed with it, and use no more of it than this.
sys.modules["expecttest"] = types.ModuleType("expecttest")
sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed, common_utils

import knltrain.torch_distributed  # noqa: F401 (registers the backends)
from knltrain.communication.collectives import Group, GroupSegment
from vectorized_ops.reference.reduction import SUM


def for_all(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda test: test


def run_the_tests_for_all() -> None:
    """Undo what would leave out tests, before they are made."""
    common_utils.skip_but_pass_in_sandcastle_if = for_all
    for name in (
        "nccl_skip_if_lt_x_gpu",
        "require_n_gpus_for_nccl_backend",
        "requires_nccl_version",
        "skip_if_lt_x_gpu",
        "skip_but_pass_in_sandcastle_if",
    ):
        setattr(common_distributed, name, for_all)
    for name in ("skip_if_no_gpu", "skip_if_rocm_multiprocess", "skip_if_small_worldsize"):
        setattr(common_distributed, name, lambda test: test)


def on_the_cpu(device: Any) -> Any:
    """What a test means by a device here."""
    if isinstance(device, bool) or not isinstance(device, int | str | torch.device):
        return device
    is_gpu = isinstance(device, int) or str(device).startswith("cuda")
    return torch.device("cpu") if is_gpu else device


class OnTheCpu(TorchFunctionMode):
    """Turns calls for GPUs into calls for the CPU, with images of a size for that."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.Tensor.cuda:
            return args[0]
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = on_the_cpu(kwargs["device"])
        if function is torch.ones and len(args) == IMAGE_AXES:
            args = tuple(min(size, LARGEST_IMAGE) for size in args)
        if function is torch.Tensor.to and len(args) > 1:
            args = args[0], on_the_cpu(args[1]), *args[2:]
        return function(*args, **kwargs)


def take_the_cpu_for_gpus() -> None:
    """Have what is no call of a tensor do without GPUs, too."""
    for name in ("set_device", "synchronize", "manual_seed", "init", "empty_cache"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.device = lambda _device: contextlib.nullcontext()  # type: ignore[assignment,misc]
    torch.cuda.stream = lambda _stream: contextlib.nullcontext()
    torch.cuda.device_count = lambda: RANKS  # type: ignore[assignment]
    torch.cuda.current_device = lambda: RANK
    module, parallel = torch.nn.Module, torch.nn.parallel.DistributedDataParallel
    move, make = module.to, parallel.__init__
    module.cuda = lambda self, device=None: self  # type: ignore[method-assign]
    module.to = lambda self, *given, **named: move(  # type: ignore[method-assign]
        self, *map(on_the_cpu, given), **{key: on_the_cpu(it) for key, it in named.items()}
    )

    def make_here(
        self: Any,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        *given: Any,
        **named: Any,
    ) -> None:
        make(self, module, None, None, *given, **named)

    parallel.__init__ = make_here  # type: ignore[method-assign]


class Name(str):
    """The name of a backend, which tests take for gloo's where they ask for that."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


run_the_tests_for_all()
from torch.testing._internal.distributed import distributed_test as tests

take_the_cpu_for_gpus()
tests.BACKEND = Name(BACKEND)
os.environ["BACKEND"] = BACKEND
for supported in (
    tests.PROFILING_SUPPORTED_BACKENDS,
    tests.CUDA_PROFILING_SUPPORTED_BACKENDS,
    tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS,
):
    supported.append(BACKEND)
for feature in common_distributed.DistTestCases.backend_feature.values():
    feature.add(BACKEND)


class Generic(tests.TestDistBackend, tests.DistributedTest._DistTestBase):  # type: ignore[misc,name-defined]
    """The tests, in this process."""


@contextlib.contextmanager
def group(name: str, folder: Path) -> Iterator[None]:
    """A group of all ranks as the tests expect it."""
    os.environ["TEMP_DIR"] = str(folder)
    tests.INIT_METHOD = f"file://{folder}/init_dir/shared"
    os.environ["INIT_METHOD"] = tests.INIT_METHOD
    tests.Barrier.barrier_id = 0
    dist.init_process_group(
        BACKEND,
        init_method=f"file://{folder}/first",
        world_size=RANKS,
        rank=RANK,
        timeout=timedelta(seconds=tests.CUSTOM_PG_TIMEOUT.get(name, LIMIT_SECONDS)),
    )
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def outcome(name: str, folder: Path) -> tuple[str, str]:
    """Run a test: how it went, and why."""
    test = Generic(name)
    test.rank, test.file_name = RANK, str(folder / "file")
    common_utils.set_rng_seed(1234)
    random.seed(1234)
    try:
        with group(name, folder), OnTheCpu():
            test._barrier()
            getattr(test, name)()
            tests.Barrier.sync(timeout=2 * LIMIT_SECONDS)
    except (unittest.SkipTest, SystemExit) as reason:
        return "skipped", str(reason)
    except Exception as error:  # noqa: BLE001 (a test may raise anything)
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).partition("\n\nTo execute")[0]
        return "failed", f"{type(error).__name__}: {text} ({place.filename}:{place.lineno})"
    return "passed", ""


def in_a_child(name: str, folder: Path) -> tuple[str, str]:
    """Run a test in a process of its own, forked off where all has been imported."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        faulthandler.dump_traceback_later(TRACE_SECONDS)
        os.write(write, json.dumps(outcome(name, folder)).encode()[:PIPE_BYTES])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        ready = select.select([answer, sys.stdin], [], [], TEST_SECONDS)[0]
        if answer not in ready:
            os.kill(child, signal.SIGKILL)
        said = answer.read()
    os.waitpid(child, 0)
    if said:
        way, why = json.loads(said)
        return way, why
    if ready and ready != [answer]:
        return "stopped", "another rank failed"
    return "hung or died", f"nothing said in {TEST_SECONDS} s" if not ready else "died"


def load_kernels() -> None:
    """Have what every test would load for itself, by a group of one rank."""
    if BACKEND != "knlshm":
        return
    segment = GroupSegment.create(1)
    segment.claim(0)
    one = Group(segment, 0, ["rank 0"], LIMIT_SECONDS)
    for kind in ("float32", "int64", "uint8"):
        for count in (1, 300_000):
            values = torch.zeros(count, dtype=getattr(torch, kind))
            one.all_reduce(values.data_ptr(), count, kind, SUM)
            one.broadcast((values.data_ptr(), count), 0)
    segment.leave(0)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    torch.set_num_threads(1)
    load_kernels()
    answers.write(json.dumps(("passed", "")) + "\n")
    answers.flush()
    for line in sys.stdin:
        if line == STOP:  # came when this rank was done already
            continue
        name, folder = line.split()
        answers.write(json.dumps(in_a_child(name, Path(folder))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
