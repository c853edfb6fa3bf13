from __future__ import annotations

from knltrain.network.graph import Output
from knltrain.network.layers import BatchNormalisation, Concatenation, Convolution, Dense, Layer
from knltrain.network.network import Network
from knltrain.network.zoo.inception import Step, average, branch, halved, joined, split


def network_of(*layers: Layer) -> Network:
    return Network("n", (9, 9, 3), (*layers, Dense("out", 2)), (Output("out"),))


def test_steps_of_a_branch_have_numbers_and_keep_the_size_if_they_are_to() -> None:
    network = network_of(*branch("b", "images", Step(4, (1, 7)), Step(6, 3, 2, same=False)))
    assert network.shape_of("b/0/relu") == (9, 9, 4)
    assert network.shape_of("b/1/relu") == (4, 4, 6)
    layers = network.layers
    assert not any(layer.bias for layer in layers if isinstance(layer, Convolution))
    assert {each.epsilon for each in layers if isinstance(each, BatchNormalisation)} == {1e-3}
    assert branch("alone", "images", Step(4))[0].name == "alone"


def test_branches_are_joined_at_their_ends() -> None:
    maps = joined(
        "j",
        branch("one", "images", Step(4)),
        average("mean", "images", 5, counts_padding=False),
        split("both", "images", 6, Step(2)),
    )
    assert maps[-1] == Concatenation("j", ("one/relu", "mean/relu", "both"))
    network = network_of(*maps)
    assert network.shape_of("both") == (9, 9, 12)
    assert network.shape_of("j") == (9, 9, 4 + 5 + 12)


def test_pooling_halves_maps() -> None:
    assert network_of(*halved("p", "images")).shape_of("p") == (4, 4, 3)
