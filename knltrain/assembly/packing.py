"""The packing of the data set of a configuration, with its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knltrain.assembly.names import KERNELS
from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.data.dataset import Halves
    from knltrain.data.packed_records import StoredAs
    from knltrain.data.packing_work import PackingWork


def packing_work(config: RunConfig, halves: Halves, stored: StoredAs, threads: int) -> PackingWork:
    """What `knltrain.data.packing.pack` takes; the kernels are those of the configuration."""
    from knltrain.data.packed_records import Records
    from knltrain.data.packing_work import PackingWork

    makes_pass = KERNELS[config.backend.implementation]().picture_pass
    train, test = (Records(each, stored, makes_pass) for each in (halves.train, halves.test))
    return PackingWork(halves, stored, (train, test), config.data.exif, threads)
