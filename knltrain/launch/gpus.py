"""Which worker computes on which GPU, as far as the machine tells of its GPUs.

Where it does not, as in some containers, PyTorch counts them in the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from affinity import Gpu, Request, Topology, own_placement, visible_gpus
from knltrain.assembly.own_backend import device_of, taken
from knltrain.config import RunConfig
from knltrain.launch.node_share import ALONE, NodeShare

_MAKERS: Final = {"cuda": ("NVIDIA", "AMD"), "xpu": ("Intel",)}
"""Of the devices of each kind; PyTorch for AMD's calls them "cuda", too."""


def with_gpus(
    request: Request, config: RunConfig, topology: Topology, node_share: NodeShare = ALONE
) -> Request:
    """The request with a GPU for each worker whose device is one.

    Without GPUs where there are fewer than the workers need, and where ranks of several computers
    say which workers: they are not known yet.
    """
    tables, visible = config.backend.workers, visible_gpus(topology.gpus).gpus
    ranks_of_others = config.total_nodes > 1 and any(each.ranks is not None for each in tables)
    if not visible or ranks_of_others:
        return request
    assert isinstance(request.workers, int)
    own, on_computer = request.workers, int(config.workers)
    first = node_share.node * on_computer
    names = [_plain(device_of(config, first + at)) for at in range(on_computer)]
    begin = node_share.share * own
    place = own_placement()  # by which `affinity run` lets each share see its own GPUs first
    before = 0 if place is None or not place.visible_gpus else begin
    turns = config.placement.gpus
    gpus = [_gpu(names[before : at + 1], visible, turns) for at in range(begin, begin + own)]
    needed = [name for name in names[begin : begin + own] if name != "cpu"]
    if not needed or sum(gpu is not None for gpu in gpus) < len(needed):
        return request
    cores = config.placement.gpu_host_cores
    return replace(request, gpus=tuple(gpus), gpu_host_cores=None if cores == "auto" else cores)


def most_on_gpus(
    config: RunConfig, topology: Topology, node_share: NodeShare = ALONE
) -> int | None:
    """How many workers of a share find a GPU, where all compute on one; else None.

    All shares of a computer see the same GPUs.
    """
    if config.backend.workers or config.backend.device not in _MAKERS:
        return None
    found = len(_of_kind(config.backend.device, visible_gpus(topology.gpus).gpus))
    if config.placement.gpus != "auto":
        found = min(found, config.placement.gpus)
    return max(1, found // node_share.shares) if found else None


def _gpu(names: Sequence[str], visible: Sequence[Gpu], turns: int | Literal["auto"]) -> Gpu | None:
    """The GPU of the last of the workers with these devices, none if there are too few.

    It is its kind's, of which the workers before this one have taken theirs, one each or by turns.
    """
    *before, own = names
    kind, _, index = own.partition(":")
    position = int(index) if index else taken(before.count(own), turns)
    return next(iter(_of_kind(kind, visible)[position:]), None)


def _of_kind(kind: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs that PyTorch counts as one kind, which are of one maker."""
    for maker in _MAKERS.get(kind, ()):
        if found := tuple(gpu for gpu in gpus if gpu.vendor == maker):
            return found
    return ()


def _plain(name: str) -> str:
    """The name of a device, with that of the accelerator that PyTorch finds for "auto"."""
    if name != "auto":
        return name
    from knltrain.backends.torch.devices import device_named

    return device_named("auto").type
