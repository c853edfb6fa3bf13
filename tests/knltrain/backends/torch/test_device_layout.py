"""On a device the weights of convolutions lie channels last; what is exchanged does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.backends.torch.device_layout import PLAIN, DeviceLayout
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.cifar_resnet import resnet20
from knltrain.vectors import FloatArray

NETWORK = resnet20()
LAYOUT = DeviceLayout.of(NETWORK)


def numbered() -> FloatArray:
    vector = ParameterVector(NETWORK).packed
    vector[:] = np.arange(len(vector))
    return vector


def arranged() -> Mirrors:
    mirrors = Mirrors(HOST, are_apart=True)
    mirrors.arrange(LAYOUT)
    return mirrors


def test_weights_are_channels_last_and_everything_else_is_where_it_was() -> None:
    vector, mirrors = numbered(), arranged()
    mirrors.load(vector)
    there, moved = mirrors.packed(vector), 0
    for spec, part in zip(
        NETWORK.parameters, ParameterVector(NETWORK, vector).views.values(), strict=True
    ):
        view = mirrors.view(vector, part)
        np.testing.assert_array_equal(view.numpy(), part)
        own = there[spec.offset : spec.offset + spec.size].numpy()
        if len(spec.shape) == 4:
            assert view.is_contiguous(memory_format=torch.channels_last)
            np.testing.assert_array_equal(own, part.transpose(0, 2, 3, 1).ravel())
            moved += not np.array_equal(own, part.ravel())
        else:
            np.testing.assert_array_equal(own, part.ravel())
    assert moved == 19  # all 3x3; 1x1 are the same in both orders


def test_what_is_written_through_views_comes_back_in_the_hosts_order() -> None:
    vector, mirrors = numbered(), arranged()
    mirrors.follow(vector)
    mirrors.load(vector)
    expected = vector.copy()
    for part in ParameterVector(NETWORK, vector).views.values():
        mirrors.view(vector, part).mul_(2)
    for part in ParameterVector(NETWORK, expected).views.values():
        part *= 2
    mirrors.store(vector)
    mirrors.to_host(vector)
    np.testing.assert_array_equal(vector, expected)


def test_whole_parameters_come_back_alone() -> None:
    vector = numbered()
    there = torch.zeros(len(vector), dtype=torch.float32)
    LAYOUT.to_device(there, torch.from_numpy(vector))
    offsets = [spec.offset for spec in NETWORK.parameters]
    begin, end = offsets[4], offsets[17]
    found = np.full_like(vector, -1)
    LAYOUT.to_host(torch.from_numpy(found), there, begin, end)
    np.testing.assert_array_equal(found[begin:end], vector[begin:end])
    assert (found[:begin] == -1).all()
    assert (found[end:] == -1).all()


def test_several_vectors_are_ordered_alike() -> None:
    one = torch.from_numpy(numbered())
    several, back = torch.stack([one, 2 * one]), torch.zeros((2, len(one)), dtype=torch.float32)
    there, alone = torch.zeros_like(several), torch.zeros_like(one)
    LAYOUT.to_device(there, several)
    LAYOUT.to_device(alone, one)
    assert torch.equal(there, torch.stack([alone, 2 * alone]))
    LAYOUT.to_host(back, there)
    assert torch.equal(back, several)


@pytest.mark.parametrize("layout", [PLAIN, LAYOUT])
def test_vectors_of_other_sizes_keep_their_order(layout: DeviceLayout) -> None:
    values = torch.arange(10, dtype=torch.float32)
    there, back = torch.zeros_like(values), torch.zeros_like(values)
    layout.to_device(there, values)
    layout.to_host(back, there)
    assert there.tolist() == back.tolist() == values.tolist()
    assert layout.strides(10, (1, 2, 1, 5), (10, 5, 5, 1)) == [10, 5, 5, 1]


def test_the_host_itself_keeps_its_order() -> None:
    mirrors = Mirrors()
    mirrors.arrange(LAYOUT)
    assert mirrors.layout is PLAIN
