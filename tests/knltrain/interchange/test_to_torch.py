"""Networks become PyTorch modules that compute on the packed vector itself."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest
import torch
from torch.nn import functional

from knltrain.interchange.to_torch import to_torch
from knltrain.network.layers import BatchNormalisation, Convolution, Dense, ReLU
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet


def _initialised(network: Network) -> ParameterVector:
    """No parameter is zero or one, so that none can be left out unnoticed."""
    parameters = ParameterVector(network)
    parameters.initialise(seed=3)
    for spec in network.parameters:
        if spec.role != "weights":
            parameters.views[spec.name][...] = np.linspace(0.4, 1.3, spec.size)
    return parameters


def _images(network: Network, count: int = 4) -> torch.Tensor:
    height, width, channels = network.input_shape
    return torch.randn(count, channels, height, width, generator=torch.manual_seed(1))


def test_modules_are_named_like_the_layers() -> None:
    module = to_torch(lenet(), _initialised(lenet()))
    names = [name for name, _ in module.named_children()]
    assert names == ["conv1", "pool1", "conv2", "pool2", "ip1", "relu1", "ip2"]
    assert sum(parameter.numel() for parameter in module.parameters()) == 431_080


def test_state_has_pytorch_s_names(branched: Network) -> None:
    state = to_torch(branched, _initialised(branched)).state_dict()
    assert {name for name in state if name.startswith("stem")} == {
        "stem/conv.weight",
        "stem/norm.weight",
        "stem/norm.bias",
        "stem/norm.running_mean",
        "stem/norm.running_var",
        "stem/norm.num_batches_tracked",
    }


def test_modules_share_memory_with_the_packed_vector(branched: Network) -> None:
    parameters = _initialised(branched)
    state = to_torch(branched, parameters).state_dict()
    with torch.no_grad():
        for number, spec in enumerate(branched.parameters, start=1):
            name = {
                "weights": "weight",
                "scale": "weight",
                "shift": "bias",
                "running_variance": "running_var",
            }.get(spec.role, spec.role)
            state[f"{spec.layer}.{name}"].fill_(number)
            assert set(parameters.views[spec.name].ravel().tolist()) == {number}
    assert np.count_nonzero(parameters.packed) == (
        branched.parameter_count + branched.statistic_count
    )


def test_layers_compute_the_shapes_that_the_network_infers(branched: Network) -> None:
    module = to_torch(branched, _initialised(branched))
    names = []
    for name, values in module.steps(_images(branched), branched.layers):
        shape = tuple(values.shape[1:])
        assert (*shape[1:], *shape[:1]) == branched.shape_of(name)
        names.append(name)
    assert names == [layer.name for layer in branched.layers]


def _by_hand(
    images: torch.Tensor, view: dict[str, torch.Tensor], training: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The branched network written out, without its dropout."""

    def norm(values: torch.Tensor, name: str, epsilon: float) -> torch.Tensor:
        mean, variance = view[f"{name}.running_mean"], view[f"{name}.running_variance"]
        if training:
            mean, variance = values.mean((0, 2, 3)), values.var((0, 2, 3), correction=0)
        values = (values - mean[:, None, None]) / (variance + epsilon).sqrt()[:, None, None]
        return values * view[f"{name}.scale"][:, None, None] + view[f"{name}.shift"][:, None, None]

    stem = functional.conv2d(images, view["stem/conv.weights"], None, (2, 1), (1, 0))
    stem = functional.leaky_relu(norm(stem, "stem/norm", 1e-3), 0.1)
    squares = functional.pad(stem**2, (0, 0, 0, 0, 1, 1))
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    lrn = stem * (1 + 0.5 / 3 * sums) ** -0.75
    halves = [
        functional.conv2d(
            lrn[:, part], view["left.weights"][part], view["left.bias"][part], 1, 2, 2
        )
        for part in (slice(2), slice(2, 4))
    ]
    summed = norm(torch.cat(halves, 1), "left/norm", 1e-5) + lrn
    small = functional.avg_pool2d(summed.clamp(0, 0.5), 3, 2, 1, ceil_mode=True)
    right = functional.max_pool2d(lrn, 3, 2, 1, ceil_mode=True)
    joined = torch.cat([small, right], 1)
    aside = joined.mean((2, 3)) @ view["aside.weights"].T + view["aside.bias"]
    return joined.flatten(1) @ view["main.weights"].T, aside


@pytest.mark.parametrize("training", [True, False])
def test_graph_computes_what_is_written_out_by_hand(branched: Network, training: bool) -> None:
    parameters = _initialised(branched)
    views = {name: torch.from_numpy(view.copy()) for name, view in parameters.views.items()}
    module = to_torch(branched, parameters).train(training)
    module.get_submodule("drop").eval()
    images = _images(branched)
    found = module.logits(images, branched.outputs)
    for ours, expected in zip(found, _by_hand(images, views, training), strict=True):
        torch.testing.assert_close(ours, expected)
    if not training:
        torch.testing.assert_close(module(images), found[0], rtol=0, atol=0)


def test_only_layers_that_are_needed_run(branched: Network) -> None:
    module = to_torch(branched, _initialised(branched)).eval()
    ran = []
    for name, child in module.named_children():
        child.register_forward_hook(lambda *_, name=name: ran.append(name))
    module(_images(branched))
    assert "main" in ran
    assert "aside" not in ran


def test_values_are_let_go_behind_their_last_taker(branched: Network) -> None:
    module = to_torch(branched, _initialised(branched)).eval()
    seen: dict[str, weakref.ref[torch.Tensor]] = {}
    with torch.no_grad():
        for name, values in module.steps(_images(branched), branched.layers):
            seen[name] = weakref.ref(values)
            if name == "sum":
                alive = {each for each, reference in seen.items() if reference() is not None}
                assert alive == {"lrn", "sum"}


def test_dense_layer_flattens_channels_first() -> None:
    network = Network("flat", (2, 3, 2), (Dense("dense", 1),))
    parameters = ParameterVector(network)
    images = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)  # N, H, W, C
    parameters.views["dense.weights"][0, 3 * 1 + 2] = 1  # channel 0, row 1, column 2
    output = to_torch(network, parameters)(torch.from_numpy(images).permute(0, 3, 1, 2))
    assert output.item() == images[0, 1, 2, 0]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (ReLU("r"), [0, 0, 1, 9]),
        (ReLU("r", slope=0.5), [-1, 0, 1, 9]),
        (ReLU("r", ceiling=6), [0, 0, 1, 6]),
        (ReLU("r", slope=0.5, ceiling=6), [-1, 0, 1, 6]),
    ],
)
def test_rectifiers_bend_and_cut(layer: ReLU, expected: list[float]) -> None:
    network = Network("bent", (1, 4, 1), (layer,))
    values = torch.tensor([-2.0, 0, 1, 9]).reshape(1, 1, 1, 4).requires_grad_()
    output = to_torch(network, ParameterVector(network))(values)
    assert output.flatten().tolist() == expected
    output.sum().backward()
    assert values.grad is not None
    cut = 0 if layer.ceiling == 6 else 1
    assert values.grad.flatten().tolist() == [layer.slope, layer.slope, 1, cut]


def test_layers_may_be_named_like_what_modules_have_of_their_own() -> None:
    network = Network(
        "odd", (4, 4, 1), (Convolution("type", 2, 1), ReLU("forward"), Dense("to", 3))
    )
    module = to_torch(network, _initialised(network))
    assert module(_images(network)).shape == (4, 3)


def test_module_trains_on_by_itself_as_pytorch_s_own_do() -> None:
    network = Network("norm", (3, 3, 2), (BatchNormalisation("norm", momentum=0.25),))
    parameters = ParameterVector(network)
    parameters.initialise(seed=1)
    images = _images(network)
    to_torch(network, parameters).train()(images)
    expected = 0.75 * 1 + 0.25 * images.var((0, 2, 3)).numpy()
    np.testing.assert_allclose(parameters.views["norm.running_variance"], expected, rtol=1e-5)


def test_copy_of_a_module_has_parameters_of_its_own(branched: Network) -> None:
    module = to_torch(branched, _initialised(branched)).eval()
    copied, images = copy.deepcopy(module), _images(branched)
    before = module(images)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.fill_(0)
    assert not copied(images).any()
    torch.testing.assert_close(module(images), before, rtol=0, atol=0)
