from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from knltrain.errors import NetworkError
from knltrain.interchange.checked_module import checked_module, unwrapped
from vectorized_ops.torch import optimize, plain

from .importing import images_of


def test_changed_modules_are_refused() -> None:
    chain = nn.Sequential(nn.Conv2d(2, 2, 3))
    handle = chain.register_forward_hook(lambda *_: None)
    with pytest.raises(NetworkError, match=r"the module \(Sequential\) has hooks"):
        checked_module(chain, images_of())
    handle.remove()
    handle = chain[0].register_full_backward_pre_hook(lambda *_: None)
    with pytest.raises(NetworkError, match=r"module '0' \(Conv2d\) has hooks"):
        checked_module(chain, images_of())
    handle.remove()
    layer: Any = chain[0]
    layer.forward = lambda images: 2 * images
    with pytest.raises(NetworkError, match=r"module '0' \(Conv2d\) has a forward of its own"):
        checked_module(chain, images_of())


def _frozen() -> nn.Module:
    layer = nn.Conv2d(2, 2, 3)
    layer.bias.requires_grad_(False)  # type: ignore[union-attr]
    return layer


def _with_statistics_of(dtype: torch.dtype) -> nn.Module:
    layer: Any = nn.BatchNorm2d(2)
    layer.running_var = layer.running_var.to(dtype)
    return layer


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (_frozen(), r"'0.bias' is frozen .*expected .*requires_grad_\(\)"),
        (nn.Conv2d(2, 2, 3, dtype=torch.bfloat16), r"'0.weight' is torch.bfloat16.*float\(\)"),
        (nn.Conv2d(2, 2, 3, dtype=torch.float64), r"'0.weight' is torch.float64.*float\(\)"),
        (nn.Conv2d(2, 2, 3, dtype=torch.complex64), "'0.weight' is torch.complex64.*expected"),
        (nn.Conv2d(2, 2, 3, device="meta"), "'0.weight' is on the device meta.*load_state_dict"),
        (_with_statistics_of(torch.float16), "'0.running_var' is torch.float16"),
    ],
)
def test_tensors_that_a_network_cannot_take_are_named(layer: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        checked_module(nn.Sequential(layer), images_of())


@pytest.mark.parametrize(
    ("module", "example", "message"),
    [
        (nn.Conv2d(2, 2, 1), (8, 8, 2), r"example is \(8, 8, 2\): expected images, a tensor"),
        (nn.Conv2d(2, 2, 1), torch.zeros(2, 8, 8), r"tensor \(2, 8, 8\) of torch.float32, "),
        (
            nn.Conv2d(2, 2, 1),
            torch.zeros(1, 2, 8, 8).half(),
            r"of torch.float16, .*: expected",
        ),
        (torch.relu, torch.zeros(1, 2, 8, 8), "made of builtin_function_or_method: expected"),
    ],
)
def test_what_is_no_module_or_no_example_is_refused(
    module: Any, example: Any, message: str
) -> None:
    with pytest.raises(NetworkError, match=message):
        checked_module(module, example)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_is_refused() -> None:
    with pytest.raises(NetworkError, match="is TorchScript: expected the module that it was made"):
        checked_module(torch.jit.script(nn.ReLU()), images_of())


def _quantised(kind: str) -> nn.Module:
    """Through dense layers by integers, or getting ready for them in training."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(128, 3))
    if kind == "dynamic":
        return torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
    module.train().qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")  # type: ignore[assignment]
    return torch.ao.quantization.prepare_qat(module)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["dynamic", "in training"])
def test_quantised_modules_are_refused(kind: str) -> None:
    with pytest.raises(NetworkError, match=r"module '1' \(Linear\) is quantised, .*torch.float32"):
        checked_module(_quantised(kind), images_of())


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (nn.utils.weight_norm, "'weight' from .* .WeightNorm.: .*utils.remove_weight_norm makes"),
        (
            nn.utils.spectral_norm,
            "'weight' from .* .SpectralNorm.: .*remove_spectral_norm makes",
        ),
        (
            lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
            "'weight' from .*: .*torch.nn.utils.prune.remove makes",
        ),
    ],
)
def test_what_takes_old_parametrisations_off_is_told(change: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=rf"module '0' \(Conv2d\) computes {message}"):
        checked_module(nn.Sequential(change(nn.Conv2d(2, 2, 3))), images_of())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (parametrizations.weight_norm(nn.Conv2d(2, 2, 1)), "has parametrisations: expected plain"),
        (nn.LazyConv2d(2, 1), r"has no shape yet \(a lazy module\).*call the module once"),
        (nn.BatchNorm2d(2, momentum=None), "momentum = None .a cumulative average.: expected"),
    ],
)
def test_modules_that_change_their_parameters_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        checked_module(module, images_of())


def test_hooks_on_gradients_are_refused() -> None:
    module = nn.Conv2d(2, 2, 1)
    handle = module.weight.register_hook(lambda gradient: -gradient)
    with pytest.raises(NetworkError, match="'weight' has hooks on its gradient"):
        checked_module(module, images_of())
    handle.remove()
    checked_module(module, images_of())


def test_module_that_cannot_be_copied_is_named() -> None:
    module: Any = nn.Conv2d(2, 2, 1)
    module.last = module(images_of())  # as some keep it
    with pytest.raises(NetworkError, match=r"Conv2d cannot be copied .*results of earlier calls"):
        checked_module(module, images_of())


def test_the_copy_trains_and_the_module_stays_as_it_is() -> None:
    module = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)).eval()
    own = checked_module(module, images_of())
    assert [each.training for each in own.modules()] == [True] * 3
    assert not module.training
    module.train()[1].eval()
    assert [each.training for each in checked_module(module, images_of()).modules()] == [
        *(True, True, False)
    ]


def test_distributed_data_parallel_is_taken_off(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        module = nn.Conv2d(2, 3, 1)
        assert unwrapped(nn.parallel.DistributedDataParallel(module)) is module
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_wrappers_are_taken_off() -> None:
    module = nn.Conv2d(2, 3, 1)
    assert unwrapped(nn.DataParallel(torch.compile(module))) is module
    assert unwrapped(module) is module


def test_optimised_module_is_taken_once_it_is_plain() -> None:
    module = optimize(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)), keep_memory=False)
    checked_module(plain(module), images_of())
