"""What would do instead of operations of PyTorch that no network has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from knltrain.errors import unknown_name

_LOSS: Final = "leave it out, the loss takes logits"
_DROPOUT: Final = "torch.nn.Dropout drops single values, StochasticDepth and DropPath whole images"
_NORMS: Final = "torch.nn.BatchNorm2d normalises, and torch.nn.LayerNorm over channels"
_SMALLER: Final = "maps that get smaller, by a pooling or a convolution's stride"
_GRADIENT: Final = (
    "compute all with gradients (a checkpoint with use_reentrant=False); network.frozen names the "
    "layers that are not trained"
)
_FLOATS: Final = "leave the conversion or autocast out, networks compute in torch.float32"
_MEANS: Final = "torch.nn.AdaptiveAvgPool2d(1), the mean of whole maps"
_ATTENTION: Final = "squeeze and excitation; networks here consist of convolutions"
_FUNCTIONS: Final = "a function that networks have, such as torch.nn.SiLU or torch.nn.GELU"

_INSTEAD: Final[Mapping[str, Iterable[str]]] = {
    _LOSS: ("log_softmax", "logsumexp", "softmax", "cross_entropy_loss", "nll_loss"),
    _DROPOUT: ("alpha_dropout", "bernoulli", "feature_alpha_dropout", "feature_dropout"),
    _NORMS: ("group_norm", "instance_norm", "native_group_norm", "rms_norm", "linalg_vector_norm"),
    _SMALLER: (
        *("conv_transpose2d", "pixel_shuffle", "upsample_bilinear2d", "upsample_nearest2d"),
        *("grid_sampler", "max_unpool2d"),
    ),
    _GRADIENT: ("detach", "wrap_with_set_grad_enabled"),
    _FLOATS: ("bfloat16", "half", "to", "type_as", "_to_copy", "wrap_with_autocast"),
    _MEANS: ("adaptive_max_pool2d", "amax", "max", "sum"),
    _ATTENTION: ("bmm", "einsum", "matmul", "scaled_dot_product_attention"),
    _FUNCTIONS: ("celu", "elu", "exp", "log_sigmoid", "mish", "selu", "softplus", "softsign"),
}

ADVICE: Final[Mapping[str, str]] = {
    operator: told for told, operators in _INSTEAD.items() for operator in operators
}
"""Operator -> what to write instead."""


def unknown_operation(operator: str, known: Iterable[str]) -> str:
    """Of an operation that is none of those known: its name, these, and what would do instead."""
    told = ADVICE.get(operator.removesuffix("_"))
    return unknown_name("operation", operator, known) + (f"; instead: {told}" if told else "")
