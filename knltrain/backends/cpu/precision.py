"""The precision in which the cpu backend keeps activations, on this processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.config.backend_tables import BackendConfig


def precision_here(asked: str, emulate: bool, where: str = "backend") -> str:
    """Return what `backend.precision` means on the processor compiled for: float32 or bfloat16.

    "auto" is float32 where AMX, to which the processor leaves bfloat16, is missing. `where` is the
    table that asks. Raises ConfigError for "bfloat16" without its instructions, unless it is to
    `emulate` them.
    """
    if asked == "float32":
        return asked
    from vectorized_ops.numba.emit.bfloat16 import IS_NATIVE

    if asked == "auto":
        return "bfloat16" if IS_NATIVE and _bfloat16_is_faster() else "float32"
    if not IS_NATIVE and not emulate:
        raise ConfigError(
            f"{where}.precision = 'bfloat16': this processor has no AVX512_BF16, without which it "
            "is slower than float32; choose 'auto' or 'float32', or, for its results alone, "
            f"{where}.emulate_bfloat16 = true"
        )
    return asked


def _bfloat16_is_faster() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32, if it has AVX512_BF16."""
    from vectorized_ops.numba.compiling.compiler import target_sums_pairs_faster

    if target_sums_pairs_faster():
        return True
    from vectorized_ops.numba.tuned_convolution import amx_missing

    return amx_missing() is None


def check_here(backend: BackendConfig, where: str) -> None:
    """Raise ConfigError for bfloat16, or AMX, that this processor has not and that is asked for.

    `where` is the table that asks. Only in this case is Numba loaded, which knows for sure.
    """
    if backend.name != "cpu" or backend.precision == "float32" or backend.emulate_bfloat16:
        return
    from affinity import read_topology
    from vectorized_ops.numba.amx_permission import amx_refusal

    isa = read_topology().isa
    if backend.precision == "bfloat16" and "avx512_bf16" not in isa:
        precision_here(backend.precision, emulate=False, where=where)
    if _without_tiles(backend) == backend.algorithms:
        return
    if "amx_bf16" not in isa or amx_refusal() is not None:
        from vectorized_ops.numba.tuned_convolution import amx_missing

        if (missing := amx_missing()) is not None:
            raise ConfigError(
                f"backend.algorithms with 'amx': {missing}; leave it out, or, for its results "
                f"alone, {where}.emulate_bfloat16 = true with precision = 'bfloat16'"
            )


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
    algorithms = _without_tiles(backend)
    if algorithms != backend.algorithms:
        from vectorized_ops.numba.tuned_convolution import amx_missing

        missing = amx_missing()
        if missing is not None:
            notes.append(f"backend.algorithms with 'amx': {missing}: evaluated by others")
        if missing is not None or changes:
            changes["algorithms"] = algorithms
    return backend.model_copy(update=changes), tuple(notes)


def _without_tiles(backend: BackendConfig) -> dict[str, object]:
    """`backend.algorithms` with "auto" in place of "amx"."""

    def other(name: str) -> str:
        return "auto" if name == "amx" else name

    return {
        layer: other(chosen)
        if isinstance(chosen, str)
        else {way: other(name) for way, name in chosen.items()}
        for layer, chosen in backend.algorithms.items()
    }
