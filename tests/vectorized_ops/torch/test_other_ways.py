"""Who reads or transforms a model, and not only runs it, gets PyTorch's own path."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import checkpoint
from torch.utils.tensorboard import SummaryWriter

from vectorized_ops.torch import BatchNorm2d, MaxPool2d, optimize, plain

IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.LocalResponseNorm(3), nn.Conv2d(4, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 2),
    ).eval()  # fmt: skip


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in model.named_parameters()}


def one_by_one(model: nn.Module) -> Any:
    def loss(parameters: dict[str, Tensor], image: Tensor) -> Tensor:
        return functional_call(model, parameters, (image[None],)).sum()

    return vmap(grad(loss), (None, 0))(parameters_of(model), IMAGES)


def forward_mode(model: nn.Module) -> Tensor:
    with forward_ad.dual_level():
        out = model(forward_ad.make_dual(IMAGES, IMAGES))
        return forward_ad.unpack_dual(out).tangent


def exported(model: nn.Module) -> Tensor:
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (IMAGES,), dynamic_shapes={"input": {0: batch}})
    return program.module()(torch.cat([IMAGES, IMAGES]))


def traced(model: nn.Module) -> Tensor:
    out: Tensor = torch.jit.trace(model, IMAGES)(IMAGES + 1)
    return out


def compiled(model: nn.Module) -> Tensor:
    torch.compiler.reset()
    return torch.compile(model, backend="eager", fullgraph=True)(IMAGES)


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "vmap(grad)": one_by_one,
    "jacrev": lambda m: jacrev(lambda p: functional_call(m, p, (IMAGES,)))(parameters_of(m)),
    "jacfwd": lambda m: jacfwd(m)(IMAGES[:1, :, :2, :2]),
    "hessian": lambda m: hessian(lambda x: m(x).square().sum())(IMAGES[:1, :, :2, :2]),
    "jvp": lambda m: jvp(m, (IMAGES,), (IMAGES,)),
    "vmap": lambda m: vmap(m)(IMAGES[:, None]),
    "forward mode": forward_mode,
    "jit.trace": traced,
    "make_fx": lambda m: make_fx(m)(IMAGES)(IMAGES + 1),
    "export": exported,
    "compile": compiled,
    "jacobian": lambda m: torch.autograd.functional.jacobian(m, IMAGES, vectorize=True),
    "checkpoint": lambda m: torch.autograd.grad(
        checkpoint.checkpoint(m, x := IMAGES.clone().requires_grad_(), use_reentrant=False).sum(), x
    ),
    "functional_call": lambda m: functional_call(
        m, {name: 2 * value for name, value in parameters_of(m).items()}, (IMAGES,)
    ),
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


@pytest.mark.parametrize("way", WAYS)
def test_the_result_is_that_of_the_plain_model(way: str) -> None:
    ours, theirs = optimize(network(), keep_memory=False), network()
    torch.testing.assert_close(WAYS[way](ours), WAYS[way](theirs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours(IMAGES), theirs(IMAGES), rtol=1e-4, atol=1e-5)


def test_a_graph_is_drawn(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_graph(optimize(network(), keep_memory=False), IMAGES)
    assert any(path.stat().st_size > 1000 for path in tmp_path.iterdir())


def test_a_plain_model_is_as_before() -> None:
    model = network()
    before = [type(module) for module in model.modules()]
    attributes = [set(module.__dict__) for module in model.modules()]
    expected = model(IMAGES)
    optimize(model, keep_memory=False)
    model(IMAGES)
    assert type(model[1]) is BatchNorm2d
    assert plain(model) is model
    assert [type(module) for module in model.modules()] == before
    assert [set(module.__dict__) for module in model.modules()] == attributes
    assert torch.equal(model(IMAGES), expected)
    assert plain(model) is model


def test_a_plain_model_can_be_read() -> None:
    model = optimize(network(), keep_memory=False)
    expected = network()(IMAGES)
    for read in (torch.fx.symbolic_trace, torch.jit.script):
        torch.testing.assert_close(read(plain(copy.deepcopy(model)))(IMAGES), expected)
    torch.testing.assert_close(model(IMAGES), expected, rtol=1e-4, atol=1e-5)


def test_models_inside_become_plain_as_well() -> None:
    outer = nn.Sequential(optimize(network(), keep_memory=False), MaxPool2d(1))
    plain(outer)
    kinds = {type(module) for module in outer.modules()}
    assert all(kind.__module__.startswith("torch.nn") for kind in kinds)


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_a_class_that_was_changed_since_is_refused() -> None:
    model = optimize(nn.Linear(2, 2), keep_memory=False)
    nn.utils.parametrize.register_parametrization(model, "weight", Doubled())
    with pytest.raises(ValueError, match=r"ParametrizedOptimizedLinear.*remove parametrisations"):
        plain(model)
    nn.utils.parametrize.remove_parametrizations(model, "weight")
    assert type(plain(model)) is nn.Linear
