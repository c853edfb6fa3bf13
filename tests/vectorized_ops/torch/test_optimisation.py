from __future__ import annotations

import copy
import io
import pickle
import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch
from plain_models import GoogLeNet, ResNet, loss_of
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.torch import OptimizationWarning, fusion_of, memory, optimize
from vectorized_ops.torch.optimisation import SINGLY

SIDE = {"resnet": 64, "googlenet": 224}


@pytest.fixture(autouse=True)
def no_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """It would be kept for all other tests in this process as well."""
    calls: list[bool] = []
    target = "vectorized_ops.torch.optimisation.keep_all_memory"
    monkeypatch.setattr(target, lambda: calls.append(True))
    return calls


def model_of(name: str, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    if name == "resnet":
        return ResNet((1, 2, 1, 1), width=12, classes=10)
    return GoogLeNet(classes=10, dropout=0.0)


def batch_of(name: str, number: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(number, 3, SIDE[name], SIDE[name]), torch.randint(0, 10, (number,))


def relative(found: Tensor, expected: Tensor) -> float:
    norm = expected.double().norm().item() or 1.0
    return (found.double() - expected.double()).norm().item() / norm


def errors(model: nn.Module, exact: nn.Module) -> list[float]:
    pairs = zip(model.parameters(), exact.parameters(), strict=True)
    return [relative(one.grad, other.grad) for one, other in pairs]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "googlenet"])
def test_gradients_are_as_near_to_double_precision_as_pytorchs(name: str) -> None:
    found: list[list[float]] = []
    for seed in range(1, 6):
        plain = model_of(name, seed)
        exact, ours = copy.deepcopy(plain).double(), optimize(copy.deepcopy(plain))
        images, labels = batch_of(name)
        for model in (plain, ours):
            loss_of(model(images), labels).backward()
        loss_of(exact(images.double()), labels).backward()
        both = [errors(model, exact) for model in (plain, ours)]
        found.append([look(each) for look in (max, statistics.median) for each in both])
    # Now and then a rounding makes another element the greatest of its window, in either model.
    plain_most, most, plain_middle, middle = map(statistics.median, zip(*found, strict=True))
    assert most < max(1e-3, 2 * plain_most)
    assert middle < max(1e-4, 2 * plain_middle)


@pytest.mark.parametrize("name", ["resnet", pytest.param("googlenet", marks=pytest.mark.slow)])
def test_losses_parameters_and_statistics_follow_those_of_the_plain_model(name: str) -> None:
    plain, ours = model_of(name), model_of(name)
    optimizers = [
        torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, fused=True)
        for model in (plain, ours)
    ]
    optimize(ours)
    for _ in range(3):
        images, labels = batch_of(name)
        losses = []
        for model, optimizer in zip((plain, ours), optimizers, strict=True):
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    for key, value in plain.state_dict().items():
        assert relative(ours.state_dict()[key], value) < 2e-3, key
    plain.eval(), ours.eval()
    images, _ = batch_of(name)
    with torch.no_grad():
        assert relative(ours(images), plain(images)) < 1e-2


@pytest.mark.parametrize("name", ["resnet", "googlenet"])
def test_modules_parameters_and_names_stay(name: str) -> None:
    model = model_of(name)
    before = (
        dict(model.named_modules()),
        dict(model.named_parameters()),
        dict(model.named_buffers()),
    )
    keys, kind, text = list(model.state_dict()), type(model), str(model)
    assert optimize(model) is model
    after = dict(model.named_modules()), dict(model.named_parameters()), dict(model.named_buffers())
    for old, new in zip(before, after, strict=True):
        assert list(old) == list(new)
        assert all(old[key] is new[key] for key in old)
    assert list(model.state_dict()) == keys
    assert isinstance(model, kind)
    assert str(model).endswith(text)


def test_what_was_fused_can_be_asked_for() -> None:
    resnet = fusion_of(optimize(model_of("resnet")))
    assert resnet.refused == ""
    assert resnet.operations["normalisation + addition + ReLU"] == 5
    assert resnet.operations["normalisation + ReLU"] == 11
    googlenet = fusion_of(optimize(model_of("googlenet"))).operations
    assert googlenet["convolution, ReLU + concatenation"] == 36
    assert googlenet["convolution, ReLU + max pooling"] == 1
    assert googlenet["convolution, ReLU + response normalisation"] == 1
    assert googlenet["convolution + ReLU"] == 21
    assert googlenet["concatenation"] == 9


def test_the_mode_of_model_and_of_parts_is_honoured() -> None:
    plain = model_of("resnet")
    ours = optimize(copy.deepcopy(plain))
    images, _ = batch_of("resnet")
    for set_mode in (
        lambda model: model.eval(),
        lambda model: model.train(),
        lambda model: model.layers[1].eval(),
    ):
        set_mode(plain), set_mode(ours)
        assert relative(ours(images), plain(images)) < 1e-4
        for name, buffer in plain.named_buffers():
            assert relative(dict(ours.named_buffers())[name], buffer) < 1e-4, name


def test_auxiliary_outputs_come_in_training_only() -> None:
    model = optimize(model_of("googlenet").eval())
    images, _ = batch_of("googlenet", 1)
    assert isinstance(model(images), Tensor)
    assert len(model.train()(images)) == 3


def test_frozen_parameters_and_normalisations_get_no_gradient() -> None:
    plain = model_of("resnet")
    for parameter in (*plain.conv1.parameters(), *plain.bn1.parameters()):
        parameter.requires_grad_(False)
    ours = optimize(copy.deepcopy(plain))
    images, labels = batch_of("resnet")
    for model in (plain, ours):
        loss_of(model.eval()(images), labels).backward()
    for (name, found), expected in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert (found.grad is None) is (expected.grad is None), name
        if expected.grad is not None:
            assert relative(found.grad, expected.grad) < 1e-3, name  # type: ignore[arg-type]


def test_hooks_on_modules_inside_are_called() -> None:
    model = optimize(model_of("resnet"))
    images, _ = batch_of("resnet")
    model(images)
    seen: list[Any] = []
    handles = [
        module.register_forward_hook(lambda module, *_: seen.append(module))
        for module in (model.layers[2], model.layers[0].bn1, model.conv1)
    ]
    model(images)
    assert len(seen) == 3
    for handle in handles:
        handle.remove()
    model(images)
    assert len(seen) == 3


def test_modules_exchanged_later_are_used() -> None:
    model = optimize(model_of("resnet").eval())
    images, _ = batch_of("resnet")
    model(images)
    model.fc = nn.Linear(model.fc.in_features, 4)
    model.layers[2] = nn.Identity()
    assert model(images).shape == (3, 4)
    assert "layers.2" in dict(model.named_modules())


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor, twice: bool = False, shift: Tensor | None = None) -> Tensor:
        out = functional.relu(self.norm(x)) * self.scale
        out = out if shift is None else out + shift
        return 2 * out if twice else out


def test_tensors_exchanged_later_are_used() -> None:
    model = optimize(Scaled())
    images = torch.randn(2, 3, 4, 4)
    first = model(images)
    model.scale = torch.full((1,), 3.0)
    torch.testing.assert_close(model(images), 3 * first)


def test_other_arguments_are_told_apart() -> None:
    model = optimize(Scaled())
    images = torch.randn(2, 3, 4, 4)
    once = model(images)
    torch.testing.assert_close(model(images, True), 2 * once)
    torch.testing.assert_close(model(images, twice=True, shift=once), 4 * once)
    torch.testing.assert_close(model(x=images, shift=None), once)


class Typed(nn.Module):
    def forward(self, x: Tensor, factor: float) -> Tensor:
        return x * (2 if isinstance(factor, bool) else 3) * factor


def test_equal_arguments_of_other_types_are_told_apart() -> None:
    model, images = optimize(Typed()), torch.ones(1, 1, 1, 1)
    assert [model(images, factor).item() for factor in (1, True, 1.0)] == [3, 2, 3]


class Undecided(nn.Module):
    """Looks at values, so that its pass cannot be followed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.norm, self.pool = nn.BatchNorm2d(8), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.conv(x)))
        return self.pool(x if x.sum() > 0 else -x)


def test_a_pass_that_cannot_be_followed_keeps_its_operations() -> None:
    plain = Undecided()
    with pytest.warns(OptimizationWarning, match="Undecided could not be followed.*TraceError"):
        ours = optimize(copy.deepcopy(plain))
    assert "TraceError" in fusion_of(ours).refused
    assert fusion_of(ours).operations == {"BatchNorm2d": 1, "MaxPool2d": 1}
    assert type(ours.norm) is SINGLY[nn.BatchNorm2d]
    images = torch.randn(2, 3, 8, 8)
    for model in (plain, ours):
        model(images).square().sum().backward()
    for found, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-5)


def test_a_single_module_is_exchanged() -> None:
    model = optimize(nn.BatchNorm2d(3))
    assert type(model) is SINGLY[nn.BatchNorm2d]
    images = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(model(images), nn.BatchNorm2d(3)(images))


@pytest.mark.parametrize("copied", ["deepcopy", "pickle", "torch.save"])
def test_copies_compute_the_same_and_are_apart(copied: str) -> None:
    model = optimize(model_of("resnet").eval())
    images, _ = batch_of("resnet")
    expected = model(images)
    if copied == "deepcopy":
        other = copy.deepcopy(model)
    elif copied == "pickle":
        other = pickle.loads(pickle.dumps(model))
    else:
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    assert torch.equal(other(images), expected)
    with torch.no_grad():
        model.fc.weight.zero_()
    assert torch.equal(other(images), expected)
    assert fusion_of(other).operations["normalisation + ReLU"] == 11


def test_a_model_optimised_twice_stays_as_it_is() -> None:
    model = optimize(model_of("resnet"))
    kind, operations = type(model), fusion_of(model).operations
    assert type(optimize(model)) is kind
    assert fusion_of(model).operations == operations


def test_a_model_around_an_optimised_one_is_optimised_as_a_whole() -> None:
    inner = optimize(model_of("resnet").eval())
    outer = optimize(nn.Sequential(inner, nn.Flatten()).eval())
    images, _ = batch_of("resnet")
    assert relative(outer(images), model_of("resnet").eval()(images)) < 1e-4


@pytest.mark.parametrize("change", [lambda m, x: (m.double(), x.double()), lambda m, x: (m, x[:0])])
def test_what_kernels_cannot_take_is_computed_by_pytorch(change: Callable[..., Any]) -> None:
    plain, ours = model_of("resnet").eval(), optimize(model_of("resnet")).eval()
    images, _ = batch_of("resnet")
    model, given = change(ours, images)
    expected_model, expected_given = change(plain, images)
    torch.testing.assert_close(model(given), expected_model(expected_given))


def test_autocast_to_another_type_than_bfloat16_is_left_to_pytorch() -> None:
    ours, plain = optimize(model_of("resnet").eval()), model_of("resnet").eval()
    images, _ = batch_of("resnet")
    with torch.autocast("cpu", dtype=torch.float16):
        found, expected = ours(images), plain(images)
    assert torch.equal(found, expected)


def test_not_a_number_reaches_the_loss() -> None:
    for name in ("resnet", "googlenet"):
        model = optimize(model_of(name))
        images, labels = batch_of(name, 2)
        with torch.no_grad():
            next(model.parameters())[0] = torch.nan
        assert loss_of(model(images), labels).isnan()


@pytest.mark.parametrize("name", ["resnet", "googlenet"])
def test_bits_are_the_same_every_time(name: str) -> None:
    model = optimize(model_of(name).eval())
    images, labels = batch_of(name, 2)

    def gradients() -> list[bytes]:
        model.zero_grad()
        loss_of(model(images), labels).backward()
        return [p.grad.numpy().tobytes() for p in model.parameters() if p.grad is not None]

    assert gradients() == gradients()


def test_memory_is_kept_unless_told_otherwise(no_memory_is_kept: list[bool]) -> None:
    optimize(nn.BatchNorm2d(2), keep_memory=False)
    assert no_memory_is_kept == []
    optimize(nn.BatchNorm2d(2))
    assert no_memory_is_kept == [True]
    assert callable(memory.keep_memory)
