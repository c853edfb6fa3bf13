"""Squeeze and excitation: a factor for each channel of maps, made of the means of all of them."""

from __future__ import annotations

from knltrain.network.layers import (
    Activation,
    ChannelProduct,
    Dense,
    GlobalAveragePooling,
    Layer,
    ReLU,
)


def excited(
    name: str, source: str, channels: int, squeezed: int, gate: str, inner: str | None = None
) -> list[Layer]:
    """Layers that scale the `channels` of `source` (Hu et al., CVPR 2018, section 3).

    `squeezed` are the units in between, behind which stands the function `inner` or a ReLU; `gate`
    is the function that makes the factors.
    """
    between = f"{name}/activation"
    return [
        GlobalAveragePooling(f"{name}/avgpool", (source,)),
        Dense(f"{name}/fc1", squeezed, initialiser="msra"),
        ReLU(between) if inner is None else Activation(between, inner),
        Dense(f"{name}/fc2", channels, initialiser="msra"),
        Activation(f"{name}/gate", gate),
        ChannelProduct(name, (source, f"{name}/gate")),
    ]
