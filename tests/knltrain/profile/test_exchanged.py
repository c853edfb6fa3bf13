from __future__ import annotations

from knltrain.network.zoo.networks import network_named
from knltrain.profile.exchanged import exchanged_part


def test_a_part_has_its_layers_and_what_computing_them_takes() -> None:
    network = network_named("lenet")
    whole = exchanged_part(network, slice(0, network.packed_size), 4, 2, 0, 100.0)
    assert whole.layers == ("conv1", "conv2", "ip1", "ip2")
    assert whole.flops == 8 * network.training_flops_per_image
    assert whole.packed_bytes == 4 * network.packed_size
    last = slice(network.packed_size - 16, network.packed_size)
    part = exchanged_part(network, last, 4, 2, 50, None)
    assert part.layers == ("ip2",)
    assert part.flops == 8 * 3 * 2 * 500 * 10


def test_intensity_is_of_the_wire_or_of_the_segment_where_its_bytes_are_known() -> None:
    network, part = network_named("lenet"), slice(0, 16)
    of_node, of_worker, unknown = (
        exchanged_part(network, part, 4, 2, wire, segment)
        for wire, segment in ((50, None), (0, 100.0), (None, None))
    )
    assert of_node.communication_intensity == of_node.flops / 50
    assert of_worker.communication_intensity == of_worker.flops / 2 / 100
    assert unknown.communication_intensity is None
