from __future__ import annotations

from typing import Any

import pytest

from knltrain.interchange.caffe.config_text import tables_of
from knltrain.interchange.caffe.settings import SolverSettings
from knltrain.interchange.caffe.solver import settings_of
from knltrain.interchange.caffe.text_format import parse

from .prototxts import LABELLED, LOSS, SMALL, layer, net

LEAST = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 9\n'


def _read(text: str, of: str = SMALL) -> SolverSettings:
    return settings_of(parse(LEAST + text, "s.prototxt"), net(of))


def _tables(text: str, of: str = SMALL) -> dict[str, Any]:
    found = _read(text, of)
    assert found.refusals == []
    return tables_of(found.settings)


def test_defaults_are_caffes() -> None:
    assert _tables("") == {
        "name": "caffe",
        "train": {"steps": 9, "batch": 4},
        "optimizer": {"name": "sgd", "momentum": 0.0, "weight_decay": 0.0},
        "learning_rate": {"base": 0.1, "policy": "fixed"},
        "evaluation": {"every_epochs": 0.0},
    }


def test_loss_is_that_of_the_net() -> None:
    assert "loss" not in _tables("")
    text = SMALL.replace("SoftmaxWithLoss", "EuclideanLoss")
    assert _tables("", text)["loss"] == {"kind": "mean_squared_error"}


@pytest.mark.parametrize(
    ("text", "table", "expected"),
    [
        ("random_seed: 7", "seed", 7),
        ("snapshot: 3", "checkpoint", {"every_steps": 3}),
        ('snapshot_prefix: "models/my net_"', "name", "my-net_"),
        ("iter_size: 3", "train", {"steps": 9, "batch": 4, "iter_size": 3}),
        ('weights: "a.caffemodel"', "network", {"weights": "a.caffemodel"}),
        ("test_iter: 5 test_interval: 2", "evaluation", {"every_steps": 2}),
        ("test_iter: 5 test_interval: 2", "data", {"test_images": 20}),
        (
            "type: 'Nesterov' momentum: 0.9 weight_decay: 0.5 clip_gradients: 10 iter_size: 2",
            "optimizer",
            {
                "name": "sgd",
                "nesterov": True,
                "momentum": 0.9,
                "weight_decay": 0.5,
                "clip_norm": 10.0,
            },
        ),
    ],
)
def test_fields_are_settings(text: str, table: str, expected: object) -> None:
    assert _tables(text)[table] == expected


def test_every_setting_says_where_it_is_from() -> None:
    found = {each.key: each.origin for each in _read("iter_size: 2\nmomentum: 0.9").settings}
    assert found["learning_rate.base"] == "base_lr, line 1"
    assert found["optimizer.momentum"] == "momentum, line 3"
    assert found["optimizer.weight_decay"] == "Caffe's default of weight_decay"
    assert found["train.batch"] == "batch_size, line 1 of the net"
    assert found["train.iter_size"] == "iter_size, line 2"


def test_one_worker_normalises_the_whole_batch() -> None:
    normalised = layer("BatchNorm", "", "data", "bn") + layer(
        "InnerProduct", "inner_product_param { num_output: 10 }", "bn", "ip"
    )
    assert _tables("", LABELLED + normalised + LOSS)["workers"] == 1
    (note,) = _read("iter_size: 3", LABELLED + normalised + LOSS).notes
    assert note.startswith("s.prototxt:2: running statistics of BatchNorm move once a step, by the")


def test_what_is_dropped_is_noted_with_its_line() -> None:
    text = "display: 20\nsolver_mode: GPU\ngamma: 0.5\nmomentum2: 0.9\nrandom_seed: -1"
    found = _read(text + "\nwarmup_start_lr: 1")
    assert found.refusals == []
    assert {note.split(" dropped: ")[0] for note in found.notes} == {
        "s.prototxt:2: display: 20",
        "s.prototxt:3: solver_mode: GPU",
        "s.prototxt:4: gamma: 0.5",
        "s.prototxt:5: momentum2: 0.9",
        "s.prototxt:7: warmup_start_lr: 1",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("test_iter: 5", "s.prototxt:2: test_interval: expected it with test_iter, at least 1"),
        ("test_iter: 0 test_interval: 2", "s.prototxt:2: test_iter: expected it"),
        ("iter_size: 0", "s.prototxt:2: iter_size: expected at least 1"),
        ("local_lr_auto: true", "s.prototxt:2: local_lr_auto is not known here"),
        ("weights: 'a' weights: 'b'", "s.prototxt:2: weights of several files"),
        ("weights: 'a,b'", "s.prototxt:2: weights of several files"),
        ("random_seed: 9223372036854775808", "s.prototxt:2: random_seed: 9223372036854775808: exp"),
        ("momentum: 'x'", "s.prototxt:2: momentum: 'x': expected a number"),
        ("momentum: 1\nmomentum: 1", "s.prototxt:3: momentum is given twice, in lines 2 and 3"),
    ],
)
def test_what_cannot_be_kept_is_named(text: str, message: str) -> None:
    (refusal, *_) = _read(text).refusals
    first, _, last = message.partition(".* ")
    assert refusal.startswith(first) or first in refusal
    assert last in refusal


def test_length_and_batch_are_needed() -> None:
    found = settings_of(parse("base_lr: 1 lr_policy: 'fixed'", "s.prototxt"), net(SMALL))
    assert found.refusals == ["s.prototxt:1: max_iter: expected at least 1"]
    unsized = _read("", SMALL.replace("batch_size: 4", ""))
    assert unsized.refusals == [
        "s.prototxt:1: layer Data of its net says no batch_size: expected it"
    ]
