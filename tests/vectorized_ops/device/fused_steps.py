"""Steps by fused kernels in Triton's interpreter, or what Triton compiles of them: prints one JSON.

TRITON_INTERPRET=1 python fused_steps.py steps      differences to the definitions
python fused_steps.py compiled                      facts of the code for each chip
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import torch

from tests.vectorized_ops.device.drawn import groups_of, three_steps
from vectorized_ops.device import adamw, adaptive, fused, lars, sgd
from vectorized_ops.device.groups import DeviceGroups
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference import adamw as reference_adamw
from vectorized_ops.reference import adaptive as reference_adaptive
from vectorized_ops.reference import elastic as reference_elastic
from vectorized_ops.reference import lars as reference_lars
from vectorized_ops.reference import sgd as reference_sgd

CHIPS = (75, 80, 90, 100, 120)
GROUPS = {
    "one": groups_of([(2500, 1.0, 0.01, math.nan)]),
    "several": groups_of(
        [
            (900, 1.0, 0.01, math.nan),
            (3, 1.0, 0.0, 0.1),
            (1100, 2.0, 0.0, math.nan),
            (40, 1.0, 0.01, 0.0),
        ]
    ),
}
ADAPTIVE: dict[str, tuple[int, tuple[float, ...]]] = {
    "AdaGradUpdate": (1, (1e-8,)),
    "RMSPropUpdate": (1, (0.9, 1e-8)),
    "AdaDeltaUpdate": (2, (0.9, 1e-6)),
    "AdamUpdate": (2, (0.9, 0.99, 1e-8)),
}


def with_kernels(make: Callable[[DeviceGroups], Any]) -> Callable[[DeviceGroups], Any]:
    """An update that takes the fused kernels, as on a GPU."""

    def made(groups: DeviceGroups) -> Any:
        groups.launch = fused.launch
        return make(groups)

    return made


def steps() -> Iterator[tuple[str, float]]:
    """Each update's name, and its largest difference, over all vectors and three steps."""
    for name, groups in GROUPS.items():
        size, clipping = (groups.size,), Clipping(value=1.5)
        adapted = np.arange(len(groups.rates)) % 2 == 0
        updates: dict[str, tuple[Any, Any, list[tuple[int, ...]], bool]] = {
            f"sgd {nesterov} {l1}": (
                reference_sgd.SGDUpdate(groups, clipping, 0.9, nesterov, l1),
                lambda there, n=nesterov, s=l1: sgd.SGDUpdate(there, 0.9, n, s),
                [size],
                False,
            )
            for nesterov in (False, True)
            for l1 in (False, True)
        }
        updates["lars"] = (
            reference_lars.LARSUpdate(groups, clipping, 0.9, 0.02, adapted),
            lambda there, a=adapted: lars.LARSUpdate(there, 0.9, 0.02, a),
            [size],
            False,
        )
        updates["adamw"] = (
            reference_adamw.AdamWUpdate(groups, clipping, 0.9, 0.99, 1e-8),
            lambda there: adamw.AdamWUpdate(there, 0.9, 0.99, 1e-8),
            [size, size],
            True,
        )
        for kind, (vectors, numbers) in ADAPTIVE.items():
            for l1 in (False, True):
                updates[f"{kind} {l1}"] = (
                    getattr(reference_adaptive, kind)(groups, clipping, l1, *numbers),
                    lambda there, k=kind, s=l1, n=numbers: getattr(adaptive, k)(there, s, *n),
                    [(vectors, *size)],
                    True,
                )
        for update, (here, there, states, counts) in updates.items():
            found = three_steps(groups, clipping, states, here, with_kernels(there), counts)
            yield f"{update}, {name}", max(float(np.abs(a - b).max()) for a, b in found)


def elastic() -> tuple[str, float]:
    """The largest difference of one pull to its definition."""
    draws = np.random.default_rng(7)
    here = [draws.standard_normal(2501, dtype=np.float32) for _ in range(3)]
    there = [torch.from_numpy(each.copy()) for each in here]
    reference_elastic.elastic_increment(*here, 0.3)
    fused.launch_elastic(*there, float(np.float32(0.3)))
    pairs = zip(here, there, strict=True)
    return "elastic", max(float(np.abs(a - b.numpy()).max()) for a, b in pairs)


def compiled() -> Iterator[tuple[str, dict[str, int]]]:
    """For each kernel and chip: loads of four values, local memory, contracted products."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for name, kernel in fused.KERNELS.items():
        kinds = {each.name: kind_of(each) for each in kernel.params}
        aligned = {
            (place,): [["tt.divisibility", 16]]
            for place, each in enumerate(kernel.params)
            if kinds[each.name] in ("*fp32", "i32")
        }
        flags = [
            place
            for place, each in enumerate(kernel.params)
            if each.is_constexpr and each.name != "block"
        ]
        block = next(place for place, each in enumerate(kernel.params) if each.name == "block")
        for number, chosen in enumerate(product((False, True), repeat=len(flags))):
            constants = {(place,): given for place, given in zip(flags, chosen, strict=True)}
            constants[block,] = 1024
            source = ASTSource(fn=kernel, signature=kinds, constexprs=constants, attrs=aligned)
            chip = CHIPS[number % len(CHIPS)]
            made = triton.compile(
                source, target=GPUTarget("cuda", chip, 32), options={"enable_fp_fusion": False}
            )
            code = made.asm["ptx"]
            yield (
                f"{name} {chosen} {chip}",
                {
                    "fours": code.count("ld.global.v4"),
                    "local": code.count(".local"),
                    "contracted": code.count("fma"),
                },
            )


def kind_of(parameter: Any) -> str:
    """The type that Triton is told of a kernel's parameter."""
    if parameter.is_constexpr:
        return "constexpr"
    if parameter.name.endswith("_all") or parameter.name in ("rates", "decays", "sizes", "roots"):
        return "*fp32"
    return "i32" if parameter.name == "n" else "fp32"


if __name__ == "__main__":
    found: dict[str, Any] = dict(steps() if sys.argv[1] == "steps" else compiled())
    if sys.argv[1] == "steps":
        found.update([elastic()])
    print(json.dumps(found))
