"""The torch backend's modules as `torch.compile` translates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from knltrain.backends.torch.execution import EagerExecution
from knltrain.interchange.to_torch import NetworkModule
from knltrain.network.graph import Output
from knltrain.vectors import FloatArray

Logits = Callable[[torch.Tensor, Sequence[Output]], list[torch.Tensor]]


class CompiledExecution(EagerExecution):
    """Eager modules whose logits, and gradients, inductor computes.

    A network is traced before it is compiled: its graph is the same for all images. The first step
    with a number of images compiles, which takes from seconds to minutes.
    """

    def _as_module(self, parameters: FloatArray) -> NetworkModule:
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # or processes that compile would outlive a worker
        module = super()._as_module(parameters)
        module.logits = _Compiled(module.logits, module)  # type: ignore[method-assign]
        return module


class _Compiled:
    """A network's logits, compiled for each choice of outputs when it is first asked for."""

    def __init__(self, logits: Logits, module: NetworkModule) -> None:
        self._logits, self._module = logits, module
        self._made: dict[tuple[str, ...], Callable[[torch.Tensor], list[torch.Tensor]]] = {}

    def __call__(self, images: torch.Tensor, outputs: Sequence[Output]) -> list[torch.Tensor]:
        chosen = tuple(output.layer for output in outputs)
        if chosen not in self._made:
            self._made[chosen] = self._compiled(outputs)
        return self._made[chosen](images)

    def _compiled(self, outputs: Sequence[Output]) -> Any:
        tracer = _Tracer()
        graph = tracer.trace(_OfImages(self._module, self._logits, outputs))
        return torch.compile(torch.fx.GraphModule(tracer.root, graph))


class _Tracer(torch.fx.Tracer):
    """Leaves modules as they are, of which some do otherwise in training; joins them alone."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002
        """Tell whether a module is called in the graph, rather than traced."""
        return not isinstance(m, (_OfImages, NetworkModule))


class _OfImages(nn.Module):
    """Logits as a function of images alone."""

    def __init__(self, module: NetworkModule, logits: Logits, outputs: Sequence[Output]) -> None:
        super().__init__()
        self.module, self._of, self._outputs = module, logits, outputs

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Return them."""
        return self._of(images, self._outputs)
