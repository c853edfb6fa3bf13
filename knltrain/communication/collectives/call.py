"""The code, one word, of the operation that a rank begins: all ranks must call the same one."""

from __future__ import annotations

_NAMES = (
    "nothing",
    "barrier",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "all_reduce",
    "reduce",
    "reduce_scatter",
)
_KINDS = (
    "bytes",
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
)
_OPERATIONS = ("sum", "mean", "product", "min", "max", "and", "or", "xor")
_ROOT_BITS, _COUNT_BITS = 12, 40


def encoded(name: str, count: int, kind: str = "bytes", operation: int = 0, root: int = 0) -> int:
    """Return the word for an operation on ``count`` elements of ``kind``."""
    word = _NAMES.index(name) << 4 | _KINDS.index(kind)
    word = word << 3 | operation
    word = word << _ROOT_BITS | root & (1 << _ROOT_BITS) - 1
    return word << _COUNT_BITS | count & (1 << _COUNT_BITS) - 1


def described(word: int) -> str:
    """Describe the operation that a rank has announced."""
    count = word & (1 << _COUNT_BITS) - 1
    word >>= _COUNT_BITS
    root = word & (1 << _ROOT_BITS) - 1
    word >>= _ROOT_BITS
    name, kind = _NAMES[word >> 7 & 15], _KINDS[word >> 3 & 15]
    notes = []
    if kind != "bytes":
        notes.append(_OPERATIONS[word & 7])
    if name in ("broadcast", "gather", "scatter", "reduce"):
        notes.append(f"root {root}")
    size = "" if name in ("barrier", "all_to_all") else f" of {count} {kind}"
    return f"{name}{size}" + (f" ({', '.join(notes)})" if notes else "")
