from __future__ import annotations

from knltrain.network.summary import format_layers, format_networks, layer_summaries, summary
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet18

LENET = lenet()


def test_size_work_and_memory_of_a_network() -> None:
    """431,080 parameters and 2.29 million multiply-adds are those of Caffe's LeNet."""
    found = summary(LENET)
    assert found["parameters"] == 431_080
    assert found["multiply_adds"] == 2_293_000
    assert found["value_bytes"] == 4 * sum(
        shape[0] * (shape[1] * shape[2] if len(shape) == 3 else 1) for shape in LENET.shapes[1:]
    )
    assert (found["input_shape"], found["classes"]) == ([28, 28, 1], 10)


def test_layers_add_up_to_the_network() -> None:
    network = resnet18()
    whole, layers = summary(network), layer_summaries(network)
    for key in ("parameters", "multiply_adds"):
        assert sum(layer[key] for layer in layers) == whole[key]
    assert len(layers) == whole["layers"]
    assert layers[-1] == {
        "name": "fc",
        "kind": "Dense",
        "inputs": ["avgpool"],
        "output_shape": [1000],
        "parameters": 513_000,
        "multiply_adds": 512_000,
    }
    assert whole["statistics"] == 9_600


def test_tables_have_a_line_for_each() -> None:
    assert "431,080" in format_networks([summary(LENET)])
    lines = format_layers(layer_summaries(LENET)).splitlines()
    assert len(lines) == 2 + len(LENET.layers)
    assert lines[2].split() == ["conv1", "Convolution", "24x24x20", "520", "0.29"]
