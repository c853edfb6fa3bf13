"""Puts fused operations into a graph, and divides the backward pass among them.

- A ReLU costs nothing, forward and backward, where it is fused with the pass before or behind it.
- Gradients of several consumers are summed in the pass that needs the sum.
- A gradient without another consumer is overwritten by the next one.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, fx, nn

from vectorized_ops.epilogue import RELU, Epilogue
from vectorized_ops.torch import _patterns as patterns
from vectorized_ops.torch.branches import hand_out, join_branches
from vectorized_ops.torch.convolution import convolve_by
from vectorized_ops.torch.lrn import respond_by
from vectorized_ops.torch.normalisation import normalise_by
from vectorized_ops.torch.pooling import pool_by

_LEAST_TAKERS = 3
"""From so many consumers on, a separate pass that sums their gradients is faster."""


def normalise(layer: nn.BatchNorm2d, images: Tensor, **options: Any) -> Tensor:
    """Return the result of `normalise_by` for one taker."""
    return normalise_by(layer, images, **options)[0]


def concatenate(images: list[Tensor], rectify: tuple[bool, ...]) -> Tensor:
    """Return the result of `join_branches` for one taker."""
    return join_branches(images, rectify)[0]


_FOR_SEVERAL: dict[Any, Callable[..., Any]] = {normalise: normalise_by, concatenate: join_branches}
"""Operations for one consumer, and the same for several."""
_FUSED = (normalise, concatenate, convolve_by, respond_by, pool_by)


def fuse(graph: fx.Graph, modules: patterns.Modules) -> Counter[str]:
    """Put fused operations into the graph of a model; return how many of each."""
    return _Fusion(graph, modules).run()


class _Fusion:
    """A graph while operations in it are fused."""

    def __init__(self, graph: fx.Graph, modules: patterns.Modules) -> None:
        self._graph, self._modules = graph, modules
        self._counts: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Fuse all; later steps see the nodes that earlier ones have put in."""
        for node in self._nodes():
            self._replace_function(node)
        for node in self._nodes():
            epilogue = patterns.epilogue_of(node, self._modules)
            source = self._source_of(node)
            if epilogue is None or source is None:
                continue
            if epilogue != RELU:
                self._fuse_with_normalisation(source, node, epilogue)
            elif not self._let_taker_rectify(source, node):
                self._fuse_with_relu(source, node)
        for node in self._nodes(normalise, convolve_by):
            self._let_overwrite(node)
        for node in self._nodes():
            self._serve_several(node)
        return self._counts

    def _nodes(self, *targets: Any) -> Iterator[fx.Node]:
        """Nodes that there are now; with targets, those that call one of them."""
        return (node for node in list(self._graph.nodes) if not targets or node.target in targets)

    def _source_of(self, node: fx.Node) -> fx.Node | None:
        """Return the node of which this one takes a function, if nobody else takes it."""
        source = node.args[0] if node.args else None
        alone = isinstance(source, fx.Node) and patterns.only_taker(source) is node
        return source if alone and isinstance(source, fx.Node) else None

    def _let_taker_rectify(self, source: fx.Node, relu: fx.Node) -> bool:
        """Let the only taker of a convolution's ReLU take the ReLU in passing, both ways.

        Some look at their own output for that on the way back, which nobody may change then.
        """
        taker, name = patterns.only_taker(relu), "convolution, ReLU + "
        if taker is None or patterns.convolution_of(source, self._modules) is None:
            return False
        kept = all(self._gives_own_gradient(further) for further in taker.users)
        if taker.target is concatenate and kept:
            parts: Any = taker.args[0]
            flags: Any = taker.kwargs["rectify"]
            flags = tuple(f or part is relu for f, part in zip(flags, parts, strict=True))
            taker.update_kwarg("rectify", flags)
            self._counts[name + "concatenation"] += 1
        elif patterns.response_of(taker, self._modules) is not None:
            given = self._applied(taker, taker)
            self._put(name + "response normalisation", taker, respond_by, *given, rectify=True)
        elif patterns.max_pooling_of(taker, self._modules) is not None and kept:
            given = self._applied(taker, taker)
            self._put(name + "max pooling", taker, pool_by, *given, rectify=True)
        else:
            return False
        relu.replace_all_uses_with(source)
        self._graph.erase_node(relu)
        return True

    def _fuse_with_relu(self, source: fx.Node, relu: fx.Node) -> None:
        if patterns.convolution_of(source, self._modules) is not None:
            self._put("convolution + ReLU", relu, convolve_by, *self._applied(source, relu))
            self._graph.erase_node(source)
        elif not self._fuse_with_normalisation(source, relu, RELU):
            self._fuse_addition(source, relu)

    def _fuse_with_normalisation(self, source: fx.Node, node: fx.Node, epilogue: Epilogue) -> bool:
        if patterns.normalisation_of(source, self._modules) is None:
            return False
        name = f"normalisation + {'ReLU' if epilogue == RELU else 'activation'}"
        self._put(name, node, normalise, *self._applied(source, node), epilogue=epilogue)
        self._graph.erase_node(source)
        return True

    def _fuse_addition(self, addition: fx.Node, relu: fx.Node) -> None:
        """Fuse one summand, a normalisation, with an addition and the ReLU behind it."""
        first, second = patterns.summands_of(addition) or (None, None)
        for main, addend in ((first, second), (second, first)):
            if (
                main is not None
                and patterns.normalisation_of(main, self._modules) is not None
                and patterns.only_taker(main) is addition
            ):
                given, name = self._applied(main, relu), "normalisation + addition + ReLU"
                self._put(name, relu, normalise, *given, addend=addend, epilogue=RELU)
                self._graph.erase_node(addition)
                self._graph.erase_node(main)
                return

    def _replace_function(self, node: fx.Node) -> None:
        """Replace a function of PyTorch on its own by ours."""
        branches, replacement = patterns.branches_of(node), patterns.replacement_of(node)
        if branches is not None:
            flags = (False,) * len(branches)
            self._put("concatenation", node, concatenate, list(branches), rectify=flags)
        elif replacement is not None:
            function, options = replacement
            self._put(function.__name__, node, function, *node.args, **options)

    def _applied(self, node: fx.Node, place: fx.Node) -> tuple[Any, ...]:
        """Return the module that a node calls, as a node before another, and its argument."""
        with self._graph.inserting_before(place):
            return self._graph.get_attr(str(node.target)), node.args[0]

    def _put(
        self, name: str, node: fx.Node, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """Put the call of a function in the place of a node, and count it by name."""
        with self._graph.inserting_before(node):
            call = self._graph.call_function(function, args, kwargs)
        node.replace_all_uses_with(call)
        self._graph.erase_node(node)
        self._counts[name] += 1

    def _let_overwrite(self, node: fx.Node) -> None:
        """Let an operation write over the gradient of its output, where it is nobody else's."""
        single = patterns.uses(node) == 1 or self._serves_several(node)
        if single and all(self._gives_own_gradient(taker) for taker in node.users):
            node.update_kwarg("overwrite", True)

    def _serves_several(self, node: fx.Node) -> bool:
        """Tell whether an operation can sum the gradients of several takers itself."""
        return node.target is concatenate or isinstance(node.kwargs.get("addend"), fx.Node)

    def _serve_several(self, node: fx.Node) -> None:
        """Hand a tensor of their own to all takers of an output, if there are several."""
        takers = list(node.users)
        if len(takers) < 2 or not all(self._gives_own_gradient(taker) for taker in takers):
            return
        if self._serves_several(node):
            node.target = _FOR_SEVERAL[node.target]
            node.update_kwarg("takers", len(takers))
            handed = node
        elif len(takers) >= _LEAST_TAKERS and self._gives_own_gradient(node):
            with self._graph.inserting_after(node):
                handed = self._graph.call_function(hand_out, (node, len(takers)))
        else:
            return
        for number, taker in enumerate(takers):
            with self._graph.inserting_before(taker):
                own = self._graph.call_function(operator.getitem, (handed, number))
            taker.replace_input_with(node, own)

    def _gives_own_gradient(self, node: fx.Node) -> bool:
        """Tell whether an operation changes no input, and gives each a gradient of its own."""
        if node.op == "call_function":
            return node.target in (*_FUSED, *patterns.REPLACEMENTS.values())
        return patterns.is_single_operation(node, self._modules)
