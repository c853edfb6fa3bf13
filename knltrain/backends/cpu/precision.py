"""The precision in which the cpu backend keeps activations, on this processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.config.backend_tables import BackendConfig


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


def computable_here(backend: BackendConfig) -> tuple[BackendConfig, tuple[str, ...]]:
    """Return a backend that evaluates a model on this processor, and notes of what is different.

    Parameters are float32 in any precision. So in place of bfloat16 without the instructions there
    is float32, and in place of AMX without it the algorithms that are measured; not where they are
    to be emulated.
    """
    if backend.name != "cpu" or backend.emulate_bfloat16:
        return backend, ()
    changes: dict[str, object] = {}
    notes = []
    try:
        precision_here(backend.precision, emulate=False)
    except ConfigError:
        changes["precision"] = "float32"
        notes.append(
            "the run computed in bfloat16, this processor has no AVX512_BF16: evaluated in float32"
        )
    algorithms = {
        layer: "auto"
        if chosen == "amx"
        else chosen
        if isinstance(chosen, str)
        else {way: "auto" if it == "amx" else it for way, it in chosen.items()}
        for layer, chosen in backend.algorithms.items()
    }
    if algorithms != backend.algorithms:
        from vectorized_ops.numba.tuned_convolution import amx_missing

        missing = amx_missing()
        if missing is not None:
            notes.append(f"backend.algorithms with 'amx': {missing}: evaluated by others")
        if missing is not None or changes:
            changes["algorithms"] = algorithms
    return backend.model_copy(update=changes), tuple(notes)
