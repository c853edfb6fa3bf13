from __future__ import annotations

from knltrain.network.zoo.networks import network_named
from knltrain.profile.exchanged import exchanged_part


def test_a_part_has_its_layers_and_what_computing_them_takes() -> None:
    network = network_named("lenet")
    whole = exchanged_part(network, slice(0, network.packed_size), 8, lambda size: size)
    assert whole.layers == ("conv1", "conv2", "ip1", "ip2")
    assert whole.flops == 8 * network.training_flops_per_image
    assert whole.packed_bytes == 4 * whole.sent_bytes == 4 * network.packed_size
    last = exchanged_part(network, slice(network.packed_size - 16, network.packed_size), 8, int)
    assert last.layers == ("ip2",)
    assert last.flops == 8 * 3 * 2 * 500 * 10
