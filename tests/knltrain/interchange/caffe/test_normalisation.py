from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.network.layers import BatchNormalisation, Multipliers, WithinChannelNormalisation

from .prototxts import DATA, layer, layers, net

BATCH_NORM = layer("BatchNorm", "param { lr_mult: 0 decay_mult: 0 }" * 3, "data", "bn")
FIXED = Multipliers(0.0, 0.0)


@pytest.mark.parametrize("is_in_place", [False, True])
def test_batch_norm_and_scale_are_one_layer(is_in_place: bool) -> None:
    settings = """scale_param { bias_term: true filler { value: 0.5 } }
    param { lr_mult: 1 decay_mult: 0 } param { lr_mult: 2 decay_mult: 0 }"""
    top = "bn" if is_in_place else "scale"
    text = BATCH_NORM + layer("Scale", settings, "bn", top).replace(f'name: "{top}"', 'name: "s"')
    found = net(DATA + text + layer("ReLU", "", top, "relu")).network.layers
    assert found[0] == BatchNormalisation(
        "bn",
        1e-5,
        1 - 0.999,
        0.5,
        scale_multipliers=Multipliers(1.0, 0.0),
        shift_multipliers=Multipliers(2.0, 0.0),
    )
    assert [each.name for each in found] == ["bn", "relu"]


def test_numbers_of_both_are_those_of_the_one_layer() -> None:
    text = layer("BatchNorm", "batch_norm_param { eps: 0.1 }", "data", "bn")
    found = net(DATA + text + layer("Scale", "param { lr_mult: 2 }", "bn", "s"))
    assert found.numbers == {"bn": ["eps: 0.1 (line 2)", "lr_mult: 2 (line 3)"]}


def test_batch_norm_alone_trains_no_scale() -> None:
    text = layer("BatchNorm", "batch_norm_param { eps: 0.001 moving_average_fraction: 0.9 }")
    (found,) = layers(text)
    assert isinstance(found, BatchNormalisation)
    assert (found.epsilon, found.momentum) == (0.001, pytest.approx(0.1))
    assert (found.scale_multipliers, found.shift_multipliers) == (FIXED, FIXED)


def test_global_statistics_are_fixed() -> None:
    (found,) = layers(layer("BatchNorm", "batch_norm_param { use_global_stats: true }"))
    assert isinstance(found, BatchNormalisation)
    assert found.frozen


def test_scale_without_bias_term_trains_no_shift() -> None:
    (found,) = layers(BATCH_NORM + layer("Scale", "", "bn"))
    assert isinstance(found, BatchNormalisation)
    assert (found.scale_multipliers, found.shift_multipliers) == (Multipliers(), FIXED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (layer("LRN", "lrn_param { local_size: 4 }"), "size = 4, expected an odd number"),
        (layer("BatchNorm", "param { lr_mult: 1 }"), "expected lr_mult: 0 and decay_mult: 0"),
        (BATCH_NORM + layer("Scale", "", "bn", "s") + layer("ReLU", "", "bn"), "before layer 's'"),
        (
            BATCH_NORM + layer("ReLU", "", "bn", "r") + layer("Scale", "", "bn"),
            "expected one reader",
        ),
    ],
)
def test_settings_that_there_are_not_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:\d+: layer '\w+': .*" + message):
        net(DATA + text)


def test_lrn_within_channels_reads_no_k() -> None:
    settings = "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 5e-5 beta: 0.7 k: 2 }"
    found = net(DATA + layer("LRN", settings))
    assert found.network.layers == (WithinChannelNormalisation("top", 3, 5e-5, 0.7),)
    assert any("k: 2 dropped: within channels Caffe does not" in note for note in found.notes)
