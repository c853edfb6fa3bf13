"""A process of several that need the same kernels: `compiling_process.py KERNELS [how]`.

KERNELS are names of `ALL`, joined by commas; `how` is what the kernel `slow` does while it is
compiled. Says "ready", waits for a line, runs the kernels, prints what they gave and how each was
made, and lives on until it is killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.journal import JOURNAL


@kernel
def square(x: float) -> float:
    return x * x


@parallel_kernel
def squares(values: Any) -> float:
    for i in numba.prange(len(values)):
        values[i] = square(values[i])
    return values.sum()


def factory(number: int) -> Callable[..., Any]:
    @kernel
    def multiple(values: Any) -> float:
        total = 0.0
        for i in range(len(values)):
            total += np.sin(values[i] * number) * number
        return total

    return multiple


five, six = factory(5), factory(6)


@kernel
def both(values: Any) -> tuple[float, float]:
    return five(values), six(values)


@intrinsic
def pausing(_typing: Any) -> Any:
    def generate(context: Any, *_: Any) -> Any:
        if sys.argv[2:] == ["hang"]:
            print("compiling", flush=True)
            time.sleep(1000)
        if sys.argv[2:] == ["fail"]:
            raise ValueError("cannot be compiled")
        return context.get_constant(types.int64, 1)

    return types.int64(), generate


@kernel
def slow(values: Any) -> float:
    return values[0] + pausing()


ALL = {"squares": squares, "five": five, "six": six, "both": both, "slow": slow}

if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    results = []
    for name in sys.argv[1].split(","):
        try:
            results.append(ALL[name](np.arange(1, 5, dtype=np.float32)))
        except ValueError as error:
            results.append(str(error).splitlines()[0])
    made = [(one.name, one.compiled) for one in JOURNAL.made]
    print(json.dumps({"results": results, "made": made}), flush=True)
    sys.stdin.readline()
