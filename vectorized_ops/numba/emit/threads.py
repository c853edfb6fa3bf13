"""How work is divided among threads: by images wherever possible.

A thread that works on the same images in every layer finds in its own cache what it wrote before.
Cores may share no cache at all, and then the neighbour's lines come at the price of memory.
"""

from __future__ import annotations

from vectorized_ops.numba.compiling.compiler import kernel


@kernel
def part(number: int, thread: int, threads: int) -> int:
    """Return where the share of `thread` in `number` pieces begins: it ends at the next one's."""
    return number * thread // threads
