"""The stages of a plan: each is an operation bound to its arrays, forward and backward."""

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import found_in

if TYPE_CHECKING:
    from knltrain.backends.cpu.stages.channels import *
    from knltrain.backends.cpu.stages.elementwise import *
    from knltrain.backends.cpu.stages.merging import *
    from knltrain.backends.cpu.stages.normalisation import *
    from knltrain.backends.cpu.stages.pooling import *
    from knltrain.backends.cpu.stages.stage import *
    from knltrain.backends.cpu.stages.weighted import *

_MODULES = ("stage", "weighted", "pooling", "elementwise", "normalisation", "merging", "channels")
__getattr__ = found_in(__name__, _MODULES)
