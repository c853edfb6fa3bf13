from __future__ import annotations

from seam.graphs import JOINED_OUTPUTS, convolution, headed

from knltrain.backends.cpu.takers import Takers
from knltrain.network.layers import IMAGES, Concatenation, ReLU
from knltrain.network.network import Network

CONCATENATIONS = headed(
    "concatenations",
    convolution("a"),
    convolution("b"),
    Concatenation("ab", ("a", "b")),
    convolution("c"),
    Concatenation("abc", ("a", "b", "c")),
    ReLU("relu"),
    convolution("d"),
    Concatenation("dab", ("d", "a", "b")),
)


def takers() -> tuple[Network, Takers]:
    return CONCATENATIONS, Takers(CONCATENATIONS)


def test_concatenation_begins_with_the_longest_other_one() -> None:
    _, found = takers()
    assert found.branches == {
        "ab": ("a", "b"),
        "abc": ("ab", "c"),
        "dab": ("d", "a", "b"),  # in the middle it is none
    }


def test_takers_are_the_layers_that_read_an_output_as_it_lies() -> None:
    _, found = takers()
    assert found.of("a") == ["b", "ab", "dab"]
    assert found.of("ab") == ["c", "abc"]
    assert found.of(IMAGES) == ["a"]


def test_sole_taker_is_the_only_one_of_what_is_no_output() -> None:
    network, found = takers()
    layers = {layer.name: layer for layer in network.layers}
    assert found.sole(layers["abc"]) is layers["relu"]
    assert found.sole(layers["ab"]) is None
    assert found.sole(layers["out"]) is None
    assert found.alone(layers["relu"], "abc")
    assert not found.alone(layers["a"], IMAGES)


def test_branch_may_be_part_of_the_last_that_takes_it() -> None:
    network, found = takers()
    wholes = {each.name: each for each in network.layers if isinstance(each, Concatenation)}
    assert not found.may_be_part("a", wholes["ab"])
    assert found.may_be_part("a", wholes["dab"])
    assert found.may_be_part("ab", wholes["abc"])


def test_output_is_no_part_and_nobody_has_it_alone() -> None:
    found = Takers(JOINED_OUTPUTS)
    layers = {layer.name: layer for layer in JOINED_OUTPUTS.layers}
    joined, norm = layers["joined"], layers["norm"]
    assert isinstance(joined, Concatenation)
    assert not found.may_be_part("main", joined)
    assert found.may_be_part("more", joined)
    assert not found.alone(norm, "aside")
