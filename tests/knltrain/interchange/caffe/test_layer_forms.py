from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.layer_forms import for_opencv, forms_of
from knltrain.network.description import layer_kinds
from knltrain.network.layers import (
    Affine,
    AveragePooling,
    BatchNormalisation,
    ChannelShuffle,
    ChannelSlice,
    Convolution,
    Dropout,
    Layer,
    LayerNormalisation,
    LocalResponseNormalisation,
    MaxPooling,
    Padding,
    ReLU,
    Shape,
    WithinChannelNormalisation,
)

NOT_IN_CAFFE = {"AdaptiveAveragePooling", "LayerNormalisation", "Padding"}


@pytest.mark.parametrize(
    ("layer", "shape", "kind", "settings"),
    [
        (Affine("a", 2.0, 0.5), (4,), "Power", {"scale": 2.0, "shift": 0.5}),
        (Dropout("a", 0.25), (4,), "Dropout", {"dropout_ratio": 0.25}),
        (ReLU("a"), (4,), "ReLU", None),
        (ChannelShuffle("a", 2), (3, 3, 4), "ShuffleChannel", {"group": 2}),
        (
            WithinChannelNormalisation("a", 3, 0.5),
            (4, 4, 1),
            "LRN",
            {"norm_region": "WITHIN_CHANNEL", "local_size": 3, "alpha": 0.5, "beta": 0.75},
        ),
        (ReLU("a", slope=0.5), (4,), "ReLU", {"negative_slope": 0.5}),
        (ReLU("a", ceiling=6.0), (4,), "Clip", {"min": 0.0, "max": 6.0}),
        (
            Convolution("a", 8, (3, 1), (2, 1), (1, 0), groups=2, bias=False),
            (9, 9, 4),
            "Convolution",
            {"num_output": 8, "kernel_h": 3, "kernel_w": 1, "stride_h": 2, "stride_w": 1}
            | {"pad_h": 1, "pad_w": 0, "group": 2, "bias_term": False},
        ),
        (
            MaxPooling("a", 3, 2),
            (7, 7, 1),
            "Pooling",
            {"pool": "MAX", "kernel_size": 3, "stride": 2},
        ),
        (
            MaxPooling("a", 3, 2),
            (8, 8, 1),
            "Pooling",
            {"pool": "MAX", "kernel_size": 3, "stride": 2, "round_mode": "FLOOR"},
        ),
        (
            MaxPooling("a", 3, 2, ceil=True),
            (8, 8, 1),
            "Pooling",
            {"pool": "MAX", "kernel_size": 3, "stride": 2},
        ),
        (
            AveragePooling("a", 3, 1, 1, counts_padding=False),
            (8, 8, 1),
            "Pooling",
            {"pool": "AVE", "kernel_size": 3, "pad": 1, "avg_include_pad": False},
        ),
    ],
)
def test_settings_are_those_of_caffe(
    layer: Layer, shape: Shape, kind: str, settings: dict[str, Any] | None
) -> None:
    (form,) = forms_of(layer, (shape,), {})
    assert (form.kind, form.settings) == (kind, settings)


def test_batch_normalisation_is_two_layers_with_sums() -> None:
    views = {
        "scale": np.array([2], np.float32),
        "shift": np.array([3], np.float32),
        "running_mean": np.array([5], np.float32),
        "running_variance": np.array([7], np.float32),
    }
    layer = BatchNormalisation("a", 1e-3, momentum=0.001)
    first, second = forms_of(layer, ((2, 2, 1),), views)
    assert [each.tolist() for each in first.blobs] == [[5 * 1024], [7 * 1024], [1024]]
    assert [each.tolist() for each in second.blobs] == [[2], [3]]
    assert first.settings == {"eps": 1e-3, "moving_average_fraction": 0.999}


def test_windows_that_caffe_does_not_have_are_refused() -> None:
    layer = AveragePooling("a", 2, 3, ceil=True)
    with pytest.raises(NetworkError, match=r"'a': .* are \(3, 3\), not \(2, 3"):
        forms_of(layer, ((6, 7, 1),), {})


def test_dilations_of_two_sizes_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"dilation \(1, 2\)"):
        forms_of(Convolution("a", 2, 3, dilation=(1, 2)), ((9, 9, 1),), {})


def test_opencv_reads_all_but_some_forms() -> None:
    (form,) = forms_of(ReLU("a"), ((4,),), {})
    assert for_opencv(ReLU("a"), form) is form
    layers: tuple[tuple[Layer, str], ...] = (
        (AveragePooling("a", 3, 1, 1, counts_padding=False), "Pooling with pool: AVE, .*include"),
        (LocalResponseNormalisation("a", bias=2.0), "LRN with local_size: 5, .*k: 2"),
    )
    for layer, told in layers:
        (form,) = forms_of(layer, ((8, 8, 1),), {})
        with pytest.raises(NetworkError, match=f"OpenCV does not read {told}"):
            for_opencv(layer, form)


def test_what_is_not_there_is_a_table() -> None:
    from knltrain.interchange.caffe import layer_forms

    known = {kind.__name__ for kind in layer_forms._FORMS}
    assert layer_kinds().keys() - known == NOT_IN_CAFFE


def test_channels_before_and_behind_a_slice_are_tops_that_nothing_reads() -> None:
    for first, last, points, tops in (
        (0, 2, [2], ("", "/behind")),
        (2, 5, [2, 5], ("/before", "", "/behind")),
        (5, 6, [5], ("/before", "")),
        (0, 6, [], ("",)),
    ):
        (form,) = forms_of(ChannelSlice("a", first, last), ((4, 4, 6),), {})
        assert (form.settings, form.tops) == ({"slice_point": points}, tops)


@pytest.mark.parametrize("layer", [LayerNormalisation("a"), Padding("a", 1)])
def test_what_caffe_has_not_is_refused_with_a_way_out(layer: Layer) -> None:
    message = rf"layer 'a': in Caffe {type(layer).__name__} is not there: .*; an .onnx file"
    with pytest.raises(NetworkError, match=message):
        forms_of(layer, ((4, 4, 6),), {})
