"""Every convolutional network of torchvision, and 39 of timm: the same in training, or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch

from ...conftest import TABLE_ROW
from .importing import differences
from .zoo_modules import (
    auxiliary_weights,
    images_for,
    prepared,
    skip_without_memory,
    timm_module,
    torchvision_modules,
)

pytestmark = pytest.mark.zoo

TORCHVISION: Final = (
    "alexnet",
    *(f"convnext_{size}" for size in ("base", "large", "small", "tiny")),
    *(f"densenet{layers}" for layers in (121, 161, 169, 201)),
    *(f"efficientnet_b{size}" for size in range(8)),
    *("efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s", "googlenet", "inception_v3"),
    *("mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"),
    *("mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"),
    *(
        f"regnet_{kind}_{work}"
        for kind in "xy"
        for work in ("16gf", "1_6gf", "32gf", "3_2gf", "400mf", "800mf", "8gf")
    ),
    "regnet_y_128gf",
    *(f"resnet{layers}" for layers in (101, 152, 18, 34, 50)),
    *("resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d"),
    *(f"shufflenet_v2_x{width}" for width in ("0_5", "1_0", "1_5", "2_0")),
    *("squeezenet1_0", "squeezenet1_1"),
    *(f"vgg{layers}{kind}" for layers in (11, 13, 16, 19) for kind in ("", "_bn")),
    *("wide_resnet101_2", "wide_resnet50_2"),
)

TIMM: Final = (
    *("resnet50", "resnet50d", "seresnet50", "ecaresnet50t", "resnext50_32x4d", "mobilenetv2_100"),
    *("mobilenetv3_large_100", "mobilenetv4_conv_small", "efficientnet_b0", "tf_efficientnet_b0"),
    *("regnetx_016", "regnety_016", "densenet121", "inception_v3", "inception_v4"),
    *("inception_resnet_v2", "xception41", "convnext_tiny", "convnextv2_atto", "ghostnet_100"),
    *("rexnet_100", "repvgg_a0", "dpn68", "dla34", "hrnet_w18_small", "res2net50_26w_4s"),
    *("vgg16_bn", "mnasnet_100", "cspresnet50", "darknet53", "mobileone_s0", "gernet_s"),
    *("skresnet18", "resnest14d", "lcnet_050", "fbnetc_100", "tinynet_a", "dm_nfnet_f0"),
    "nf_resnet50",
)

REFUSED: Final = {
    "convnextv2_atto": r"mlp.grn' \(GlobalResponseNorm\), grn.py:\d+: .* 'linalg_vector_norm'",
    "dm_nfnet_f0": r"module 'stem.conv1' \(ScaledStdConv2dSame\), std_conv.py:\d+: ",
    "ecaresnet50t": r"module 'layer1.0.se' \(EcaModule\), eca.py:\d+: .*view to \(.*, 1, 256\)",
    "hrnet_w18_small": r"hrnet.py:\d+: .*unknown operation 'upsample_nearest2d'",
    "nf_resnet50": r"module 'stem.conv' .*std_conv.py:\d+: .* computes from parameters alone",
    "resnest14d": r"module 'layer1.0.conv2' \(SplitAttn\), split_attn.py:\d+: .* 'sum'",
    "skresnet18": r"module 'layer1.0.conv1' \(SelectiveKernel\), .*: unknown operation 'stack'",
}
"""timm's networks with operations that no network here has, and where each is refused first."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_none_of_torchvisions_networks_is_left_out() -> None:
    assert sorted(TORCHVISION) == sorted(torchvision_modules())


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str, record_property: Callable[[str, Any], None]) -> None:
    found = _found("torchvision", name, torchvision_modules()[name])
    record_property(TABLE_ROW, found)


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str, record_property: Callable[[str, Any], None]) -> None:
    record_property(TABLE_ROW, _found("timm", name, lambda: timm_module(name)))


def _found(library: str, name: str, make: Callable[[], nn.Module]) -> str:
    """The table's row of a network."""
    began = time.process_time()
    torch.manual_seed(0)
    module, images = make(), images_for(name)
    skip_without_memory(module)
    prepared(module, images)
    if library == "timm" and name in REFUSED:
        with pytest.raises(NetworkError, match=REFUSED[name]) as refused:
            from_torch(module, images)
        return f"{library:12}{name:24} refused: {str(refused.value)[:200]}"
    imported = from_torch(module, images, auxiliary_weights(library, name))
    evaluated, trained, gradients = differences(module, imported, images)
    return (
        f"{library:12}{name:24} {len(imported.network.layers):4} layers, outputs {evaluated:.1e} "
        f"in evaluation, {trained:.1e} in training, gradients {gradients:.1e}; "
        f"{time.process_time() - began:.0f} s"
    )
