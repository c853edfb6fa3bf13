"""How much of a step hides the exchanges of each method."""

from __future__ import annotations

from typing import Any

import pytest

from knltrain.bench.methods.entrants import configuration, entrants
from knltrain.bench.methods.task import task_named
from knltrain.bench.predict.overlap import hiding_share, overlap_of
from knltrain.bench.predict.steps import method_of
from knltrain.config import RunConfig
from knltrain.cost_model.overlap import by_parts
from knltrain.network.layer_slices import layer_parts
from knltrain.network.zoo.networks import network_named


def run(method: str, **exchange: Any) -> RunConfig:
    [_, entrant] = entrants([method], 4)
    found = configuration(entrant, task_named("lenet", None), threads=1, seed=1)
    given = found.model_dump(exclude_unset=True)
    return RunConfig.model_validate({**given, "exchange": {"method": method, **exchange}})


@pytest.mark.parametrize(
    ("method", "exchange", "expected"),
    [
        ("sync_easgd3", {}, 1.0),
        ("sync_easgd3", {"communication_period": 4}, 0.25),
        ("seasgd", {"communication_period": 4}, 1.0),
        ("shmcaffe_h", {"communication_period": 4}, 1.0),
        ("hierarchical_easgd", {"communication_period": 8, "group_period": 2}, 0.25),
        (
            "streaming_diloco",
            {"communication_period": 40, "fragments": 4, "delay_steps": 3},
            0.3,
        ),
        ("none", {}, 1.0),
    ],
)
def test_exchanges_are_hidden_by_the_steps_that_they_may_take(
    method: str, exchange: dict[str, Any], expected: float
) -> None:
    assert hiding_share(method_of(run(method, **exchange))) == pytest.approx(expected)


def test_what_is_left_of_an_exchange_is_that_of_its_share_and_its_steps() -> None:
    """12 s on the link in the mean over steps of 10 s."""
    exposed = {
        name: overlap_of(run(name, **exchange)).exposed(12.0, 10.0)
        for name, exchange in (
            ("sync_easgd", {}),
            ("sync_easgd3", {"communication_period": 4}),
            ("seasgd", {"communication_period": 4}),
        )
    }
    assert exposed == pytest.approx({"sync_easgd": 12.0, "sync_easgd3": 9.5, "seasgd": 6.0})


def test_gradients_are_exchanged_by_layers_as_they_are_done() -> None:
    network = network_named("lenet")
    expected = by_parts(network, layer_parts(network)).exposed(5.0, 2.0)
    each = overlap_of(run("layerwise_sgd", packing="per_layer"))
    assert each.exposed(5.0, 2.0) == pytest.approx(expected)
    fused = overlap_of(run("layerwise_sgd", fusion_kib=4096))
    assert fused.exposed(5.0, 2.0) == pytest.approx(5.0)  # all of lenet's are one
