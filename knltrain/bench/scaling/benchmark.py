"""`knltrain bench scaling`: the same training by more and more workers, on one node and on several.

Nodes are emulated hosts of this machine (`knltrain.bench.nodes.hosts`). A worker has as many cores
on every ground, but where there are more workers than cores, which they share. The runs are
compared as `knltrain report-scaling` compares those of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.bench.exchange.cores import groups_of
from knltrain.bench.nodes.hosts import hosts
from knltrain.bench.nodes.ours import carried_out, on_all, on_node
from knltrain.bench.step.bounds import bounds_of
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import load_config
from knltrain.errors import ConfigError
from knltrain.launch.run_folder import create_run_folder
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder
from knltrain.scaling import scaling_of

Scaling: TypeAlias = Literal["weak", "strong"]

OF_ITSELF: Final = """\
network.name = "lenet"
data.name = "digits"
train.epochs = 4
learning_rate = { base = 0.01, policy = "fixed" }
exchange.method = "sync_easgd3"
evaluation.every_epochs = 1
"""
"""What is trained where no configuration is given."""

_SHARED: Final = ("placement.pin=false", "backend.threads=1")
"""Settings of workers that share cores, unless there are others."""


@final
@dataclass(frozen=True, slots=True)
class Ground:
    """So many `nodes` with `workers` on each, whose steps take `batch` images of all together."""

    nodes: int
    workers: int
    batch: int

    @property
    def total(self) -> int:
        """Workers on all nodes."""
        return self.nodes * self.workers

    @property
    def name(self) -> str:
        """As it is shown: "2x1-batch-64"."""
        return f"{self.nodes}x{self.workers}-batch-{self.batch}"


def run_scaling_benchmark(
    config: Path | None,
    *,
    nodes: Sequence[int],
    workers: Sequence[int],
    batches: Sequence[int],
    scaling: Scaling = "weak",
    rounds: int = 3,
    gbits: float = 10.0,
    workers_per_core: int = 1,
    overrides: Sequence[str] = (),
    runs: Path | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Train on all grounds of `nodes` and `workers` on each, in alternating `rounds`.

    `batches` are images of a step: of each worker in weak scaling, of all in strong. `config` is
    what is trained, LeNet on the digits if it is None, with `overrides`. The report is that of
    `knltrain.scaling.scaling_of`, with the machine, its sgemm and copy before and after, and the
    Gbit/s of links between nodes. At most so many `workers_per_core` share one of the `cores`, each
    with one thread, where a ground has more workers; they wait for each other. The runs' folders
    stay in a new folder in `runs`, if it is given. Raises ConfigError for impossible settings,
    NoHosts where there can be none, PeerError when a training fails, RunFolderError where its
    figures cannot be kept.
    """
    grounds = _grounds(nodes, workers, batches, scaling)
    slots = _slots(max(each.total for each in grounds), workers_per_core)
    cpus = [cpu for slot in slots for cpu in slot]
    with signals_raise(), temporary_folder() as kept:
        file = _kept_config(config, kept.path, overrides, grounds)
        folder = (
            kept.path / "runs" if runs is None else create_run_folder(runs.absolute(), "scaling")
        )
        if max(nodes) > 1:
            with hosts(max(nodes), gbits):
                """What cannot be emulated is told before anything is measured."""
        before, done = bounds_of(cpus), []
        for number, ground in product(range(1, rounds + 1), grounds):
            name = f"{ground.name}-{number}"
            _train(file, ground, slots, gbits, (*overrides, f"runs_folder={folder}"), name)
            done.append(folder / name)
            tell(f"round {number} of {rounds}: {ground.name}")
        report, after = scaling_of(done, scaling), bounds_of(cpus)
    return {
        **report,
        "machine": {"model": read_topology().model, "before": before, "after": after},
        "rounds": rounds,
        "cores_per_worker": len(slots[0]),
        "cores": len(cpus),
        "link_gbits": gbits if max(nodes) > 1 else None,
    }


def _grounds(
    nodes: Sequence[int], workers: Sequence[int], batches: Sequence[int], scaling: Scaling
) -> list[Ground]:
    if not (nodes and workers and batches) or min(*nodes, *workers, *batches) < 1:
        raise ConfigError("expected --nodes, --workers and --batches of 1 or more")
    found = []
    for count, each, batch in dict.fromkeys(product(nodes, workers, batches)):
        total = count * each
        if scaling == "strong" and batch % total:
            raise ConfigError(
                f"a batch of {batch} images does not divide evenly among {total} workers: expected "
                "multiples of all numbers of workers in --batches"
            )
        found.append(Ground(count, each, batch * total if scaling == "weak" else batch))
    if len({each.total for each in found}) < 2:
        raise ConfigError(
            "all runs would have the same number of workers: expected several --nodes or --workers"
        )
    return found


def _slots(most: int, workers_per_core: int) -> list[list[int]]:
    """The cpus of a worker, in as many places as there are; ConfigError for too many workers."""
    topology, allowed = read_topology(), allowed_cpus()
    cores = len(physical_cores(topology, allowed))
    if most > cores * workers_per_core:
        raise ConfigError(
            f"{most} workers: expected at most {workers_per_core} for each of {cores} cores; give "
            "fewer --nodes or --workers, or a larger --workers-per-core"
        )
    places = min(most, cores)
    return groups_of(topology, allowed, places, cores // places)


def _kept_config(
    config: Path | None, folder: Path, overrides: Sequence[str], grounds: Sequence[Ground]
) -> Path:
    """The file of the configuration, which is read for all of them before anything is measured."""
    file = config
    if file is None:
        file = folder / "lenet.toml"
        file.write_text(OF_ITSELF, encoding="utf-8")
    for each in grounds:
        sizes = f"train.batch={each.batch}", f"workers={each.workers}", f"nodes={each.nodes}"
        load_config(file, (*overrides, *sizes))
    return file.absolute()


def _train(
    file: Path,
    ground: Ground,
    slots: Sequence[Sequence[int]],
    gbits: float,
    overrides: Sequence[str],
    name: str,
) -> None:
    words = ["train", str(file), "--name", name, "--no-pictures"]
    words += ["--workers", str(ground.workers)]
    shared = _SHARED if ground.total > len(slots) else ()
    keys = (*shared, *overrides, f"train.batch={ground.batch}")
    words += [word for key in keys for word in ("--set", key)]
    with ExitStack() as stack:
        command = _command(stack, ground, slots, gbits, words)
        status, said = carried_out(command, Path.cwd(), None)
    if status:
        raise PeerError(f"{ground.name} ended with {status}: {said[-2000:]}")


def _command(
    stack: ExitStack,
    ground: Ground,
    slots: Sequence[Sequence[int]],
    gbits: float,
    words: Sequence[str],
) -> list[str]:
    groups = _groups(ground, slots)
    if ground.nodes == 1:
        return on_node(groups[0], words)
    made = stack.enter_context(hosts(ground.nodes, gbits))
    return on_all(made, groups, stack.enter_context(temporary_folder()).path, words)


def _groups(ground: Ground, slots: Sequence[Sequence[int]]) -> list[list[int]]:
    """The cpus of each node: those of its workers, which take the slots in turn."""
    of_workers = [slots[number % len(slots)] for number in range(ground.total)]
    nodes = [
        of_workers[first : first + ground.workers]
        for first in range(0, ground.total, ground.workers)
    ]
    return [sorted({cpu for cpus in node for cpu in cpus}) for node in nodes]
