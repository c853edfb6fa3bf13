"""Which of a machine's GPUs a process may use, by the variables that hide them from programs.

CUDA_VISIBLE_DEVICES and its kin have numbers, which count GPUs in an order of the program's own, or
UUIDs. Numbers are taken to count by the address on the PCI bus: so they do with CUDA_DEVICE_ORDER =
PCI_BUS_ID, and for equal GPUs. In a step of Slurm that hides the GPUs of others they count those of
the step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from affinity.errors import PlacementError
from affinity.placement.beside_gpus import MIG
from affinity.placement.wording import counted
from affinity.topology import Gpu

CUDA_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"

_VARIABLES: Final = {
    "NVIDIA": (CUDA_VARIABLE,),
    "AMD": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    "Intel": ("ZE_AFFINITY_MASK",),
}
"""By maker; a later one counts what an earlier one leaves."""

_SLURM: Final = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_PARENT = re.compile(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+")
"""The older name of a part of a GPU, which has that of the GPU in it."""


class VisibleGpus(NamedTuple):
    """The GPUs, in the order in which programs count them, and what limits them."""

    gpus: tuple[Gpu, ...]
    said_by: tuple[str, ...] = ()

    def first(self, number: int) -> tuple[Gpu, ...]:
        """So many of them; PlacementError if there are fewer."""
        if number > len(self.gpus):
            there = "is 1 GPU" if len(self.gpus) == 1 else f"are {len(self.gpus) or 'no'} GPUs"
            by = f" ({'; '.join(self.said_by)})" if self.said_by else ""
            raise PlacementError(
                f"{counted(number, 'worker')} with a GPU asked for, but there {there} that may be "
                f"used{by}: ask for as many, or ask the job for more (--gres, --gpus-per-node)"
            )
        return self.gpus[:number]


def visible_gpus(gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ) -> VisibleGpus:
    """Those of the GPUs, ordered by address, that the environment leaves.

    As in CUDA, what stands behind a name that no GPU has does not count. Where NVIDIA's driver
    tells of some of its GPUs, it serves no others: a container may see all of them on the bus.
    """
    found: list[Gpu] = []
    said: list[str] = []
    for vendor in dict.fromkeys(gpu.vendor for gpu in gpus):
        own = [gpu for gpu in gpus if gpu.vendor == vendor]
        if vendor == "NVIDIA":
            own = [gpu for gpu in own if gpu.uuid] or own
        for variable in _VARIABLES.get(vendor, ()):
            words = environment.get(variable)
            if words is not None:
                own = _named(words, _countable(own, words, environment), vendor == "Intel")
                said.append(f"{variable}={words}")
        found += own
    return VisibleGpus(tuple(found), tuple(said))


def _named(words: str, gpus: Sequence[Gpu], in_parts: bool) -> list[Gpu]:
    """The GPUs of a list of numbers and UUIDs, up to the first that no GPU has.

    A GPU may stand there once for each of its parts, if it has some.
    """
    found: list[Gpu] = []
    for word in (each.strip() for each in words.split(",")):
        gpu = _one(word, gpus)
        if gpu is None or (gpu in found and not in_parts):
            break
        found.append(gpu)
    return found


def _one(word: str, gpus: Sequence[Gpu]) -> Gpu | None:
    number = word.partition(".")[0]  # Intel's parts of GPUs are numbers behind a point
    if number.isdigit():
        return gpus[int(number)] if int(number) < len(gpus) else None
    if word.startswith(MIG):
        return _part(word, gpus)
    alike = [gpu for gpu in gpus if word and gpu.uuid.startswith(word)]
    return alike[0] if len(alike) == 1 else None


def _part(word: str, gpus: Sequence[Gpu]) -> Gpu:
    """A part of a GPU, with the GPU's place where its name or the machine tells of which it is."""
    told = _PARENT.fullmatch(word)
    whole = [gpu for gpu in gpus if told is None or gpu.uuid == told[1]]
    if len(whole) == 1:
        return replace(whole[0], uuid=word)
    evidence = "nothing tells of which GPU it is a part"
    return Gpu("", "NVIDIA", "part of a GPU", word, None, (), evidence)


def _countable(own: list[Gpu], words: str, environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that numbers count: those of the step, where Slurm hides the others.

    There the step's GPUs have other numbers on the machine than in the step.
    """
    step = next((environment[name] for name in _SLURM if name in environment), "").split(",")
    asked = [word.strip() for word in words.split(",")]
    if not all(map(str.isdigit, (*step, *asked))) or set(asked) <= set(step):
        return own
    if not all(int(number) < len(step) for number in asked):
        return own
    return [own[int(number)] for number in step if int(number) < len(own)]
