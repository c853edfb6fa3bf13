"""What PyTorch does in the whole process, as a backend wants it."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, final

import torch
import torch.utils.deterministic as memory

from knltrain.cluster.variables import set_unless_set

Precision: TypeAlias = Literal["float32", "tf32", "bfloat16"]
"""What products of layers are rounded to; sums, parameters and losses are float32."""

_WORKSPACE: Final = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""Without it cuBLAS may add in another order where several streams compute (its documentation)."""


@final
class Switches:
    """PyTorch's switches for a device, until `restore`.

    An NVIDIA GPU rounds products with precision "tf32" alone, and libraries measure which of their
    algorithms are fast: a worker's batches have few sizes. `deterministic` ones are neither
    measured nor do they add in an order that may change; PyTorch refuses operations that have none.
    """

    def __init__(self, device: torch.device, precision: Precision, deterministic: bool) -> None:
        wanted: list[tuple[Any, str, bool]] = []
        if device.type == "cuda":
            wanted += [
                (torch.backends.cuda.matmul, "allow_tf32", precision == "tf32"),
                (torch.backends.cudnn, "allow_tf32", precision == "tf32"),
                (torch.backends.cudnn, "benchmark", not deterministic),
            ]
        if deterministic:
            set_unless_set(_WORKSPACE)
            # Every value is written before it is read here.
            wanted.append((memory, "fill_uninitialized_memory", False))
        self._before = [(owner, name, getattr(owner, name)) for owner, name, _ in wanted]
        self._refused = torch.are_deterministic_algorithms_enabled()
        self._warned = torch.is_deterministic_algorithms_warn_only_enabled()
        self._is_deterministic = deterministic
        for owner, name, value in wanted:
            setattr(owner, name, value)
        if deterministic:
            torch.use_deterministic_algorithms(True)

    def restore(self) -> None:
        """Set them as they were."""
        for owner, name, value in self._before:
            setattr(owner, name, value)
        if self._is_deterministic:
            torch.use_deterministic_algorithms(self._refused, warn_only=self._warned)
