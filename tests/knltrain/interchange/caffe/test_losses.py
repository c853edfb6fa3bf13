from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.network.graph import Output

from .prototxts import DENSE, LABELLED, LOSS, SMALL, layer, net


def test_losses_are_outputs_the_heaviest_first() -> None:
    second = DENSE.replace('"ip"', '"aux"') + LOSS.replace('"ip"', '"aux"').replace(
        'top: "loss"', 'top: "loss2" loss_weight: 0.3'
    )
    found = net(LABELLED + second + DENSE + LOSS)
    assert found.network.outputs == (Output("ip", 1.0), Output("aux", 0.3))


@pytest.mark.parametrize("reader", ["SoftmaxWithLoss", "InnerProduct", "Dropout", "Softmax"])
@pytest.mark.parametrize("is_split", [False, True])
def test_probabilities_are_read_by_accuracies_alone(reader: str, is_split: bool) -> None:
    text = SMALL + layer("Softmax", "", "ip", "prob")
    text += layer("Split", "", "prob", "read" if is_split else "same")
    blob = "read" if is_split else "prob"
    assert net(text + layer("Accuracy", "", f"{blob} label")).network == net(SMALL).network
    bottoms = f"{blob} label" if reader == "SoftmaxWithLoss" else blob
    with pytest.raises(ConfigError, match=f"layer 'top': {reader} of probabilities: expected lo"):
        net(text + layer(reader, "inner_product_param { num_output: 2 }", bottoms))


def test_accuracy_is_dropped() -> None:
    text = SMALL + layer("Accuracy", "accuracy_param { top_k: 5 }", "ip label")
    assert any("top_k: 5 dropped" in note for note in net(text).notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("loss_param { normalization: NONE }", "normalization: NONE sums over"),
        ("loss_param { ignore_label: 255 }", "ignore_label is not there"),
        ("softmax_param { axis: 2 }", "softmax_param.axis: expected 1"),
        ("loss_weight: -1", "loss_weight: -1.0: expected a number above 0"),
    ],
)
def test_losses_that_there_are_not_are_named(settings: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:5: layer 'loss': " + message):
        net(LABELLED + DENSE + LOSS.replace("top:", f"{settings} top:"))


def test_loss_needs_logits_and_labels() -> None:
    with pytest.raises(ConfigError, match="expected two bottoms: logits, and labels"):
        net(LABELLED + DENSE + layer("SoftmaxWithLoss", "", "ip ip"))
    with pytest.raises(ConfigError, match=r"logits are a map of .28, 28, 1.: expected a vector"):
        net(LABELLED + layer("ReLU", "", "data", "r") + layer("SoftmaxWithLoss", "", "r label"))


@pytest.mark.parametrize(
    ("kind", "settings", "name", "weight"),
    [
        ("SigmoidCrossEntropyLoss", "", "sigmoid_cross_entropy", 10.0),
        ("SigmoidCrossEntropyLoss", "loss_param { normalize: false }", "sigmoid_cross_entropy", 10),
        ("SigmoidCrossEntropyLoss", "loss_param { normalize: true }", "sigmoid_cross_entropy", 1.0),
        (
            "SigmoidCrossEntropyLoss",
            "loss_weight: 0.5 loss_param { normalization: FULL normalize: false }",
            "sigmoid_cross_entropy",
            0.5,
        ),
        ("EuclideanLoss", "", "mean_squared_error", 5.0),
        ("EuclideanLoss", "loss_weight: 2", "mean_squared_error", 10.0),
    ],
)
def test_other_losses_weigh_as_caffes(kind: str, settings: str, name: str, weight: float) -> None:
    """Caffe's sums over the 10 outputs, a squared distance is halved; ours are means."""
    found = net(LABELLED + DENSE + layer(kind, settings, "ip label"))
    assert found.loss == (name, 5)
    assert found.network.outputs == (Output("ip", weight),)


def test_losses_of_two_types_are_refused() -> None:
    second = layer("EuclideanLoss", "", "ip label")
    with pytest.raises(ConfigError, match="EuclideanLoss beside losses of another type"):
        net(SMALL + second)
