"""Compiles the kernels of a worker's steps before the first one, on all cores of the node.

One worker of a node starts a separate process on all cores that the job has there; the others wait.
That process finds out which kernels are needed, by a dry run of a step, and compiles the missing
ones in forks of itself. It is separate because a worker may have threads and MPI, which do not
survive a fork. A file then names the kernels of the network, so that a later start only looks for
them: another batch size or optimizer needs few more, and so does a change of a source that few
kernels are compiled from. Packages of kernels have such files, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, final

from knltrain.assembly.factories import layout_for, precision_of
from knltrain.assembly.names import (
    KERNELS,
    build_backend,
    build_network,
    build_optimizer,
    label_shape_of,
    tested_label_shape_of,
)
from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.data.dataset import Batch
    from knltrain.network.network import Network
    from vectorized_ops.numba.compiling.cache_folder import CacheFolder
    from vectorized_ops.numba.compiling.journal import Progress
    from vectorized_ops.numba.compiling.recording import WantedKernel

MOST_PROCESSES: Final = 32
"""More would only wait for the longest kernel, with a hundred megabytes of memory each."""

PATIENCE_SECONDS: Final = 300.0
"""How long a worker waits for the one that compiles."""

PAUSE_SECONDS: Final = 0.05

_PROCESS: Final = "knltrain.assembly.compiling_process"

FEW_KERNELS: Final = 4
"""So many are compiled by the workers that call them, sooner than a process finds all others."""

COMPLETE: Final = "complete"
_OF_KERNELS: Final = {"kernels", "emit"}
"""Folders whose sources have nothing but what kernels are compiled from; others also make plans."""

_State = tuple[str, int]
"""A digest of a source, and the number of kernels that are compiled from it alone."""


class Found(TypedDict):
    """What was found out about wanted kernels."""

    readers: Mapping[str, int]
    """How many are compiled from each source file."""
    kernels: Sequence[Sequence[str]]
    """The names of each in the cache and in packages."""


def found_of(wanted: Iterable[WantedKernel]) -> Found:
    """What is to be known of these kernels at later starts."""
    listed = list(wanted)
    readers = Counter(file for one in listed for file in one.sources)
    return {"readers": readers, "kernels": [one.names for one in listed]}


def compile_kernels(
    config: RunConfig, images: int, threads: int, copies: bool = False
) -> Iterator[Progress]:
    """Compile and cache the kernels of steps of so many images and threads; yield progress.

    `copies` tells that pictures keep their size and colours, so that one kernel less is needed.
    Compiles nothing if the kernels are known to be cached or in a package, if there is no writable
    cache, or if the backend has no kernels. A kernel that is not foreseen is compiled when it is
    called.
    """
    if config.backend.name != "cpu" or config.backend.implementation != "numba":
        return
    from vectorized_ops.numba.compiling.compiler import (
        cache_has_locks,
        cache_is_writable,
        cache_refusal,
    )
    from vectorized_ops.numba.compiling.journal import JOURNAL, MadeKernel, Progress

    known = known_kernels(config, images, copies)
    if known.are_compiled() or not cache_is_writable() or cache_refusal() or not cache_has_locks():
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not known.cache.lock(known.name):
        if time.monotonic() > deadline:  # so that it compiles for itself what it calls
            return
        time.sleep(PAUSE_SECONDS)
    try:
        if known.are_compiled():
            return
        request = {
            "config": config.model_dump(mode="json"),
            "images": images,
            "threads": threads,
            "copies": copies,
            "cpus": sorted(_cpus()),
        }
        all_of_them: Found | None = None
        with _helper(request) as helper:
            assert helper.stdout is not None
            try:
                for line in helper.stdout:
                    found = json.loads(line)
                    if "readers" in found:
                        all_of_them = found
                        continue
                    progress = Progress(MadeKernel(**found.pop("made")), **found)
                    JOURNAL.made.append(progress.made)
                    yield progress
            except BaseException:
                helper.kill()
                raise
        if helper.returncode == 0 and all_of_them is not None:
            known.keep(all_of_them)
    finally:
        known.cache.unlock(known.name)


def _cpus() -> set[int]:
    """The cpus for compiling: this worker's own, and those of its parent if that is knltrain."""
    own, parent = os.sched_getaffinity(0), os.getppid()
    try:
        if b"knltrain" in Path(f"/proc/{parent}/cmdline").read_bytes():
            return own | os.sched_getaffinity(parent)
    except OSError:
        pass
    return own


def known_kernels(config: RunConfig, images: int, copies: bool) -> KnownKernels:
    """What is known of the kernels of a network for steps of so many images."""
    import vectorized_ops.numba
    from vectorized_ops.numba.compiling.compiler import CACHE_FOLDER, kernels_in, target_name
    from vectorized_ops.numba.compiling.packages import kernel_packages

    root = Path(*vectorized_ops.numba.__path__)
    network = build_network(config)
    backend = config.backend
    precision = precision_of(backend)
    chosen = backend.winograd, backend.algorithms, precision, backend.emulate_bfloat16
    step = network, layout_for(backend, network, images, precision), *chosen
    run = _method_alone(config), copies, config.data.operates, config.data.network_order
    return KnownKernels(
        kernels_in(CACHE_FOLDER),
        _digest(*step, *run, target_name(), str(root)),
        root,
        _digest(*step),
        [it.folder for it in kernel_packages(CACHE_FOLDER.name) if it.folder is not None],
    )


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _method_alone(config: RunConfig) -> str | None:
    """The method whose exchange is rehearsed: that of a worker alone.

    Several workers would wait for what kernels write for each other, which are not called then.
    """
    alone = (config.workers, config.total_nodes) == (1, 1)
    return config.exchange.method if alone else None


def _helper(request: dict[str, object]) -> subprocess.Popen[str]:
    """The process that compiles; it prints a line for each kernel."""
    helper = subprocess.Popen(
        [sys.executable, "-m", _PROCESS, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert helper.stdin is not None
    with suppress(BrokenPipeError), helper.stdin as pipe:
        json.dump(request, pipe)
    return helper


def wanted_kernels(
    config: RunConfig, images: int, threads: int, copies: bool = False
) -> tuple[list[WantedKernel], bool]:
    """Return the kernels of a step, by a dry run, and whether these are all of them.

    This process can do nothing else afterwards. `copies` as in `compile_kernels`.
    """
    from affinity import main_thread_mask_kept
    from knltrain.assembly.preprocessing import rehearse_pass
    from knltrain.data.dataset import Batch
    from vectorized_ops.numba.compiling.recording import recording

    with main_thread_mask_kept(), recording() as recorder:  # forks need all of these cpus
        try:
            network = build_network(config)
            batch = Batch.allocate(images, network.input_shape, label_shape_of(config))
            kernels = KERNELS[config.backend.implementation]()
            rehearse_pass(config.data, network.input_shape, kernels, copies)
            take_step(config, network, batch, threads)
            if _method_alone(config) is not None:
                from knltrain.assembly.rehearsal import exchange_once

                exchange_once(config)
        except Exception as error:  # noqa: BLE001  (what is not foreseen is compiled later)
            told = f"{type(error).__name__}: {error}"
            print(f"some kernels are compiled when they are called: {told}", file=sys.stderr)
            return recorder.wanted, False
    return recorder.wanted, True


def take_step(config: RunConfig, network: Network, batch: Batch, threads: int) -> None:
    """Compute a gradient, step, and evaluate, all on one batch of training."""
    from knltrain.data.dataset import Batch
    from knltrain.vectors import aligned_zeros

    parameters, gradient = (aligned_zeros(network.packed_size) for _ in range(2))
    optimizer = build_optimizer(config, network)
    backend = build_backend(config, network, len(batch.labels), threads)
    try:
        for _ in range(2):  # The second step loads what later ones are repeated with.
            backend.loss_and_gradient(batch, parameters, gradient)
        optimizer.step(parameters, gradient, 0.0)
        tested = batch
        if config.data.mixes:
            shape = network.input_shape, tested_label_shape_of(config)
            tested = replace(
                Batch.allocate(len(batch.labels), *shape), images_nhwc=batch.images_nhwc
            )
        backend.evaluate(tested, parameters)
    finally:
        backend.close()


@final
@dataclass(frozen=True, slots=True)
class KnownKernels:
    """Files in the `cache` and in `packages` that tell which kernels a network needs.

    The network is known by the digest `name`, in packages by `packaged_name`: there it counts for
    each processor, and for runs that need some kernels more. A file has the names of the kernels
    and the states of all sources below `root`. For each source it has the number of kernels that
    are compiled from its code; 0 for sources whose changes can concern all kernels, as plans.
    """

    cache: CacheFolder
    name: str
    root: Path
    packaged_name: str = ""
    packages: Sequence[CacheFolder] = ()

    def are_compiled(self) -> bool:
        """Tell whether all kernels are in the cache or in packages, but for a few.

        These are the kernels of sources that have been changed since, which are then known in their
        new state.
        """
        now = self._digests()
        packaged = [package.path / COMPLETE / self.packaged_name for package in self.packages]
        return any(self._are_there(file, now) for file in (self._path, *packaged))

    def _are_there(self, file: Path, now: Mapping[str, str]) -> bool:
        from vectorized_ops.numba.compiling.cache import EntryNames, SharedKernels

        known, kernels = _read(file)
        if not known or known.keys() != now.keys():
            return False
        changed = [known[source][1] for source, digest in now.items() if known[source][0] != digest]
        if changed and (0 in changed or sum(changed) > FEW_KERNELS):
            return False
        shared = SharedKernels(self.cache, self.packages)
        if not all(shared.has(EntryNames(*names)) for names in kernels):
            return False
        if changed:
            states = {source: (digest, known[source][1]) for source, digest in now.items()}
            self._write(states, kernels)
        return True

    def keep(self, found: Found) -> None:
        """Note that all kernels are compiled. Where nothing can be written, nothing is known."""
        counts = {
            os.path.relpath(file, self.root): count
            for file, count in found["readers"].items()
            if not _OF_KERNELS.isdisjoint(Path(file).parts)
        }
        digests = self._digests().items()
        states = {source: (digest, counts.get(source, 0)) for source, digest in digests}
        self._write(states, found["kernels"])

    @property
    def _path(self) -> Path:
        return self.cache.path / COMPLETE / self.name

    def _digests(self) -> dict[str, str]:
        """Of the content of each source: times differ between installations of the same one."""
        return {
            str(file.relative_to(self.root)): hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            for file in self.root.rglob("*.py")
        }

    def _write(self, states: Mapping[str, _State], kernels: Sequence[Sequence[str]]) -> None:
        content = {"sources": states, "kernels": kernels}
        with suppress(OSError):
            self._path.parent.mkdir(mode=self.cache.folder_mode, exist_ok=True)
            self.cache.put(self._path, json.dumps(content, separators=(",", ":")).encode())


def _read(file: Path) -> tuple[dict[str, _State], list[tuple[str, str]]]:
    """The states of sources, and names of kernels; none where the file is not there, or no such."""
    from vectorized_ops.numba.compiling.cache_folder import touch

    try:
        found = json.loads(file.read_bytes())
        states = {str(source): (str(a), int(b)) for source, (a, b) in found["sources"].items()}
        kernels = [(str(own), str(packaged)) for own, packaged in found["kernels"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}, []
    touch(file)
    return states, kernels
