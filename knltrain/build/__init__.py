"""From a run's configuration to the objects that carry it out.

The only place where classes are picked by name. Nothing heavy is imported before the name that
needs it is picked.
"""

from __future__ import annotations

from knltrain.build.factories import Kernels
from knltrain.build.names import (
    BACKENDS,
    DATASETS,
    KERNELS,
    METHODS,
    NETWORKS,
    OPTIMIZERS,
    build_backend,
    build_dataset,
    build_method,
    build_network,
    build_optimizer,
    build_transport,
    check_names,
    network_named,
    network_size,
)
from knltrain.build.resolve import BETA, LEAST_IMAGES, resolve_workers, resolved
from knltrain.build.whole_run import check_resumable, check_run
from knltrain.build.worker import build_worker

__all__ = [
    "BACKENDS",
    "BETA",
    "DATASETS",
    "KERNELS",
    "LEAST_IMAGES",
    "METHODS",
    "NETWORKS",
    "OPTIMIZERS",
    "Kernels",
    "build_backend",
    "build_dataset",
    "build_method",
    "build_network",
    "build_optimizer",
    "build_transport",
    "build_worker",
    "check_names",
    "check_resumable",
    "check_run",
    "network_named",
    "network_size",
    "resolve_workers",
    "resolved",
]
