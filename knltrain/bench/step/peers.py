"""The contestants by name, and the command that starts each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from affinity import allowed_cpus
from knltrain.bench.step.peer_process import PeerProcess
from knltrain.errors import ConfigError, unknown_name

OURS = "cpu"
IN_FLOAT32 = "cpu-float32"
IPEX = "ipex"
IPEX_PYTHON = Path(".venv-ipex/bin/python")
"""Where `scripts/setup --ipex` puts it."""

MEMORY_KEPT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 30),
}
"""Lets glibc keep the large arrays of a step for the next one. By default it gives them back to the
kernel, which maps and zeroes them again page by page."""


@dataclass(frozen=True, slots=True)
class Start:
    """The command of a contestant: `python *program JOB THREADS *options`.

    Threads of one that is not `pinned` roam on all allowed cpus.
    """

    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = True

    def on(self, *where: str) -> Start:
        """The same with a device and a precision, or the latter alone, behind its options."""
        return replace(self, options=(*self.options, *where))

    def process(self, name: str, job: Path, cpus: Sequence[int]) -> PeerProcess:
        """Start a worker with a thread for each of `cpus`."""
        return PeerProcess(
            name,
            [*self.program, str(job), str(len(cpus)), *self.options],
            *((cpus,) if self.pinned else (allowed_cpus(), len(cpus))),
            python=self.python,
            environment=self.environment,
        )


_CPU = Start(("-m", "knltrain.bench.step.cpu_peer"))
_TORCH = Start((str(Path(__file__).with_name("torch_peer.py")),), options=("eager",))
_TUNED = replace(_TORCH, environment=MEMORY_KEPT)

PEERS = {
    "torch": _TORCH,
    "torch-tuned": _TUNED,
    "torch-compile": replace(_TUNED, options=("compile",)),
    "torch-optimized": replace(_TORCH, options=("optimized",)),
    IPEX: replace(_TUNED, program=("-E", *_TORCH.program), options=("ipex",)),
    "unpinned": replace(_CPU, pinned=False),
    IN_FLOAT32: _CPU,
}
"""`torch`: eager PyTorch in our places; `torch-tuned`: the same with MEMORY_KEPT, which helps
`torch-compile` and `ipex`, too; `torch-optimized`: eager PyTorch after `vectorized_ops.torch`'s
`optimize`; `unpinned`: ours, its threads free on all allowed cpus; `cpu-float32`: ours in float32
beside ours in bfloat16."""

_ON_DEVICE = Start(("-m", "knltrain.bench.step.device_peer"), options=("eager",))
DEVICE_PEERS = {
    "compiled": replace(_ON_DEVICE, options=("compile",)),
    "torch": _TORCH,
    "torch-graph": replace(_TORCH, options=("graph",)),
    "torch-compile": replace(_TORCH, options=("compile",)),
}
"""On a device: `torch-graph`: eager PyTorch's whole step recorded as a CUDA graph; `compiled`: ours
with `backend.engine = "compile"`."""

_OWN = {"torch-optimized", "unpinned", IN_FLOAT32, "compiled"}
OTHERS = frozenset({*PEERS, *DEVICE_PEERS}) - _OWN
"""Peers that are not ours."""


def device_starts(peers: Iterable[str], device: str, precision: str) -> dict[str, Start]:
    """Ours on a device, by its name, then `peers`; raises ConfigError for unknown ones."""
    chosen = {device: _ON_DEVICE.on(device, precision)}
    for name in peers:
        if name not in DEVICE_PEERS:
            raise ConfigError(unknown_name(f"peer on '{device}'", name, DEVICE_PEERS))
        chosen[name] = DEVICE_PEERS[name].on(device, precision)
    return chosen


def starts(
    peers: Iterable[str], ipex_python: Path | None, precision: str = "float32"
) -> dict[str, Start]:
    """Ours in that precision, then `peers`, by name.

    Raises ConfigError for unknown ones, and for ours in float32 beside ours in float32.

    `ipex` runs under `ipex_python`, by default under IPEX_PYTHON if that exists, else under this.
    """
    chosen = {OURS: _CPU.on(precision)}
    for name in peers:
        if name not in PEERS:
            raise ConfigError(unknown_name("peer", name, PEERS))
        if (name, precision) == (IN_FLOAT32, "float32"):
            raise ConfigError(
                f"the peer '{name}' is ours in float32 beside ours in bfloat16: add --precision "
                "bfloat16, or leave it out of --peers"
            )
        chosen[name] = _in_precision(name, precision)
    if IPEX in chosen:
        found = IPEX_PYTHON if IPEX_PYTHON.exists() else Path(sys.executable)
        chosen[IPEX] = replace(chosen[IPEX], python=str(ipex_python or found))
    elif ipex_python is not None:
        raise ConfigError("--ipex-python is the Python of the peer 'ipex': add it to --peers")
    return chosen


def _in_precision(name: str, precision: str) -> Start:
    """A peer on the host."""
    start = PEERS[name]
    if start.program == _CPU.program:
        return start.on("float32" if name == IN_FLOAT32 else precision)
    return start.on("cpu", precision)
