from __future__ import annotations

import pytest

from knltrain.cost_model.overlap import AFTERWARDS, Overlap, Piece, by_parts, meanwhile
from knltrain.network.layer_slices import layer_parts
from knltrain.network.layers import Convolution, Dense, Flatten, ReLU
from knltrain.network.network import Network

THREE = Overlap([Piece(0.4, 0.5), Piece(0.7, 0.3), Piece(1.0, 0.2)])


def ended(pieces: list[Piece], on_link: float, computing: float) -> float:
    """When an exchange is over, piece by piece."""
    end = 0.0
    for piece in pieces:
        end = max(end, piece.begins * computing) + piece.share * on_link
    return end


@pytest.mark.parametrize("on_link", [0.1, 1.0, 4.0, 50.0])
@pytest.mark.parametrize(
    "pieces",
    [
        [Piece(0.4, 0.5), Piece(0.7, 0.3), Piece(1.0, 0.2)],
        [Piece(0.0, 0.1), Piece(0.9, 0.9)],
        [Piece(0.2, 0.9), Piece(0.3, 0.1)],
        [Piece(0.0, 0.5), Piece(1.0, 0.5)],
    ],
    ids=["three", "a large one late", "all early", "half of it afterwards"],
)
def test_exposed_is_what_is_left_of_pieces_one_after_another(
    pieces: list[Piece], on_link: float
) -> None:
    exposed = Overlap(pieces).exposed(on_link, 2.0)
    assert max(0.0, exposed) == pytest.approx(max(0.0, ended(pieces, on_link, 2.0) - 2.0))
    if exposed > 0:
        assert Overlap(pieces).on_link(exposed, 2.0) == pytest.approx(on_link)


def test_all_afterwards_is_exposed_and_all_meanwhile_is_not_before_computing_ends() -> None:
    assert AFTERWARDS.exposed(3.0, 2.0) == 3.0
    assert AFTERWARDS.on_link(3.0, 2.0) == 3.0
    assert meanwhile(0.0).exposed(3.0, 2.0) == 3.0
    assert meanwhile(1.0).exposed(3.0, 2.0) == 1.0
    assert meanwhile(1.0).exposed(1.0, 2.0) <= 0.0
    assert meanwhile(1.0).on_link(1.0, 2.0) == 3.0
    assert meanwhile(0.5).exposed(3.0, 2.0) == 1.5
    assert meanwhile(0.5).exposed(5.0, 2.0) == 3.0
    assert meanwhile(1.0, behind=0.25).exposed(3.0, 2.0) == 2.5


def test_of_what_is_hidden_nothing_is_known() -> None:
    assert THREE.on_link(0.0, 2.0) == 0.0
    assert THREE.on_link(-1.0, 2.0) == 0.0


def test_layers_are_exchanged_from_the_last_one_on_when_their_gradients_are_there() -> None:
    """A convolution of 8x8x2 to 6x6x4 by 3x3, and 144 to 10: 2592 and 1440 products forward."""
    network = Network(
        "two",
        (8, 8, 2),
        (Convolution("conv", 4, 3), ReLU("relu"), Flatten("flat"), Dense("out", 10)),
    )
    forward, last, first = 2592 + 1440, 2 * 1440, 2592  # the images need no gradient
    whole = forward + last + first
    parts = layer_parts(network)
    weights = [part.stop - part.start for part in parts]
    pieces = [
        Piece((forward + last) / whole, weights[1] / sum(weights)),
        Piece(1.0, weights[0] / sum(weights)),
    ]
    for on_link in (0.01, 0.5, 3.0):
        expected = ended(pieces, on_link, 2.0) - 2.0
        assert by_parts(network, parts).exposed(on_link, 2.0) == pytest.approx(expected)
        whole = [slice(0, network.packed_size)]  # which is not done before the first layer is
        assert by_parts(network, whole).exposed(on_link, 2.0) == pytest.approx(on_link)
