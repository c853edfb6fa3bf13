"""Builds the objects of a run from its configuration.

Classes are chosen by name only here. Heavy modules are imported when a name that needs them is
chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import on_demand

if TYPE_CHECKING:
    from knltrain.assembly.factories import Kernels
    from knltrain.assembly.methods import doubts_about, strategy_of
    from knltrain.assembly.names import (
        BACKENDS,
        DATASETS,
        KERNELS,
        OPTIMIZERS,
        build_backend,
        build_dataset,
        build_method,
        build_network,
        build_optimizer,
        build_wire_format,
        check_names,
        image_shape_of,
        network_size,
        plain_method,
        written_for_the_wire,
    )
    from knltrain.assembly.resolve import BETA, LEAST_IMAGES, resolve_workers, resolved
    from knltrain.assembly.whole_run import (
        check_classes,
        check_data,
        check_resumable,
        check_run,
        check_weights,
    )
    from knltrain.assembly.worker import build_worker

# fmt: off
_NAMES = {
    "factories": ("Kernels",),
    "methods": ("doubts_about", "strategy_of"),
    "names": (
        "BACKENDS", "DATASETS", "KERNELS", "OPTIMIZERS", "build_backend", "build_dataset",
        "build_method", "build_network", "build_optimizer", "build_wire_format", "check_names",
        "image_shape_of", "network_size", "plain_method", "written_for_the_wire",
    ),
    "resolve": ("BETA", "LEAST_IMAGES", "resolve_workers", "resolved"),
    "whole_run": ("check_classes", "check_data", "check_resumable", "check_run", "check_weights"),
    "worker": ("build_worker",),
}
# fmt: on

__all__ = [
    "BACKENDS",
    "BETA",
    "DATASETS",
    "KERNELS",
    "LEAST_IMAGES",
    "OPTIMIZERS",
    "Kernels",
    "build_backend",
    "build_dataset",
    "build_method",
    "build_network",
    "build_optimizer",
    "build_wire_format",
    "build_worker",
    "check_classes",
    "check_data",
    "check_names",
    "check_resumable",
    "check_run",
    "check_weights",
    "doubts_about",
    "image_shape_of",
    "network_size",
    "plain_method",
    "resolve_workers",
    "resolved",
    "strategy_of",
    "written_for_the_wire",
]

__getattr__ = on_demand(__name__, _NAMES)
