"""The precision in which the cpu backend keeps activations, on this processor."""

from __future__ import annotations

from knltrain.errors import ConfigError


def precision_here(asked: str, emulate: bool) -> str:
    """Return what `backend.precision` means on the processor compiled for: float32 or bfloat16.

    Raises ConfigError for "bfloat16" where it is slower than float32, unless it is to `emulate`.
    """
    if asked == "float32":
        return asked
    from vectorized_ops.numba.emit.bfloat16 import IS_NATIVE

    if asked == "auto":
        return "bfloat16" if IS_NATIVE else "float32"
    if not IS_NATIVE and not emulate:
        raise ConfigError(
            "backend.precision = 'bfloat16': this processor has no AVX512_BF16, without which it "
            "is slower than float32; choose 'auto' or 'float32', or, for its results alone, "
            "backend.emulate_bfloat16 = true"
        )
    return asked
