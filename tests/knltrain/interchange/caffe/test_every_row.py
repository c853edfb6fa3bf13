"""Every layer, quirk and field of Caffe that people's files have: kept, or refused with a way out.

A refusal names file, line and layer, and says what is expected instead.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.importing import import_caffe

from .prototxts import DATA, SMALL, layer, net

MAPS = layer("ReLU", "", "data", "maps")
MEANS = layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", "data", "means")
CONV = "convolution_param { num_output: 4 kernel_size: 3 FIELDS }"
DENSE = "inner_product_param { num_output: 4 FIELDS }"
POOL = "pooling_param { kernel_size: 3 stride: 2 FIELDS }"
FILLER = "weight_filler { type: 'FIELDS' }"

KEPT = {
    "convolution, engine": layer("Convolution", CONV.replace("FIELDS", "engine: CAFFE")),
    "convolution, pairs": layer("Convolution", CONV.replace("FIELDS", "pad_h: 1 pad_w: 0")),
    "convolution, dilation": layer("Convolution", CONV.replace("FIELDS", "dilation: 2")),
    "inner product": layer("InnerProduct", DENSE.replace("FIELDS", "bias_term: false")),
    "pooling, rounded down": layer("Pooling", POOL.replace("FIELDS", "round_mode: FLOOR")),
    "pooling, ceil_mode": layer("Pooling", POOL.replace("FIELDS", "ceil_mode: false")),
    "pooling, padded": layer("Pooling", POOL.replace("FIELDS", "pool: AVE pad: 1")),
    "lrn": layer("LRN", "lrn_param { local_size: 3 k: 2 }"),
    "dropout": layer("Dropout", "dropout_param { dropout_ratio: 0.3 }"),
    "batch norm and scale": layer("BatchNorm", "", "data", "b") + layer("Scale", "", "b"),
    "scale alone": layer("Scale", "scale_param { bias_term: true }"),
    "factors alone": layer("Scale"),
    "within channels": layer("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }"),
    "prelu": layer("PReLU", "prelu_param { channel_shared: true }"),
    "slice": layer("Slice", "", "data", "s") + layer("ReLU", "", "s"),
    "shuffle": layer("ShuffleChannel", "shuffle_channel_param { group: 3 }"),
    "the same twice": layer("Eltwise", "", "data data"),
    "concat of vectors": MEANS + layer("Flatten", "", "data", "f") + layer("Concat", "", "f means"),
    "bias": layer("Bias"),
    "product": MAPS + MEANS + layer("Scale", "scale_param { axis: 0 }", "maps means"),
    "axpy": MAPS + MEANS + layer("Axpy", "", "means maps data"),
    "sum of three": MAPS
    + layer("TanH", "", "data", "t")
    + layer("Eltwise", "eltwise_param { coeff: 1 coeff: -2 coeff: 0.5 }", "maps t data"),
    "concat": MAPS + layer("Concat", "", "maps data"),
    "power": layer("Power", "power_param { scale: 2 shift: 1 }"),
    "relu": layer("ReLU", "relu_param { negative_slope: 0.1 }"),
    "sigmoid": layer("Sigmoid"),
    "tanh": layer("TanH"),
    "swish": layer("Swish"),
    "clip": layer("Clip", "clip_param { min: 0 max: 6 }"),
    "split": layer("Split", "", "data", "s") + layer("ReLU", "", "s"),
    "flatten": layer("Flatten", "", "data", "f")
    + layer("InnerProduct", DENSE.replace("FIELDS", ""), "f"),
    "filler xavier": layer("Convolution", CONV.replace("FIELDS", FILLER)).replace(
        "FIELDS", "xavier"
    ),
}

REFUSED = {
    "convolution, axis": layer("Convolution", CONV.replace("FIELDS", "axis: 2")),
    "inner product, transposed": layer("InnerProduct", DENSE.replace("FIELDS", "transpose: true")),
    "inner product, axis": layer("InnerProduct", DENSE.replace("FIELDS", "axis: 2")),
    "pooling, stochastic": layer("Pooling", POOL.replace("FIELDS", "pool: STOCHASTIC")),
    "pooling, window outside": layer("Pooling", "pooling_param { kernel_size: 1 stride: 3 }"),
    "lrn, even": layer("LRN", "lrn_param { local_size: 4 }"),
    "product, axis": MAPS + MEANS + layer("Scale", "", "maps means"),
    "eltwise, PROD": MAPS + layer("Eltwise", "eltwise_param { operation: PROD }", "maps data"),
    "eltwise, MAX": MAPS + layer("Eltwise", "eltwise_param { operation: MAX }", "maps data"),
    "eltwise, coefficients": MAPS + layer("Eltwise", "eltwise_param { coeff: 1 }", "maps data"),
    "concat, axis": MAPS + layer("Concat", "concat_param { axis: 2 }", "maps data"),
    "slice, axis": layer("Slice", "slice_param { axis: 2 }"),
    "slice, points": layer("Slice", "slice_param { slice_point: 4 }"),
    "shuffle": layer("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
    "power": layer("Power", "power_param { power: 2 }"),
    "clip": layer("Clip", "clip_param { min: -1 max: 1 }"),
    "swish": layer("Swish", "swish_param { beta: 2 }"),
    "flatten": layer("Flatten", "flatten_param { axis: 2 }"),
    **{
        f"filler {kind}": layer("Convolution", CONV.replace("FIELDS", FILLER)).replace(
            "FIELDS", kind
        )
        for kind in ("bilinear", "positive_unitball", "gabor")
    },
    **{
        kind: layer(kind)
        for kind in (
            *("AbsVal", "BNLL", "ELU", "Threshold", "ArgMax", "BatchReindex", "Crop"),
            *("Deconvolution", "Embed", "Exp", "Filter", "HDF5Output", "Im2col", "LSTM", "Log"),
            *("MVN", "Parameter", "Python", "RNN", "Recurrent", "Reduction", "Reshape", "SPP"),
            *("Tile", "Nonsense"),
        )
    },
    "shared parameters": "".join(
        layer("Convolution", CONV.replace("FIELDS", "pad: 1") + 'param { name: "w" }', "data", each)
        for each in "ab"
    ),
    "unknown field": layer("ReLU", "relu_param { slope: 2 }"),
}

SOLVERS_KEPT = (
    *("type: 'Nesterov' momentum: 0.9", "type: 'AdaGrad'", "type: 'RMSProp' rms_decay: 0.9"),
    *("type: 'AdaDelta' momentum: 0.95", "type: 'Adam' momentum: 0.9", "solver_type: NESTEROV"),
    *("iter_size: 2", "regularization_type: 'L1' weight_decay: 0.1", "clip_gradients: 5"),
    *("average_loss: 10", "random_seed: 3", "solver_mode: CPU", "snapshot: 3 snapshot_prefix: 'a'"),
    *("snapshot_format: HDF5", "debug_info: true", "test_compute_loss: true", "weights: 'a'"),
    "test_iter: 2 test_interval: 3 test_initialization: false",
)
POLICIES_KEPT = (
    *("'step' gamma: 0.1 stepsize: 3", "'exp' gamma: 0.9", "'inv' gamma: 0.1 power: 0.75"),
    *("'poly' power: 1", "'multistep' gamma: 0.1 stepvalue: 3 stepvalue: 4"),
    *("'sigmoid' gamma: -1 stepsize: 3", "'poly' power: 1 warmup_iter: 4 warmup_start_lr: 0.1"),
    "'multifixed' stagelr: 0.1 stagelr: 0.01 stageiter: 3 stageiter: 9",
)
SOLVERS_REFUSED = (
    *("type: 'Nonsense'", "type: 'SGD' solver_type: SGD", "regularization_type: 'L3'"),
    *("iter_size: 0", "nonsense: 1", "weights: 'a,b'", "test_iter: 2", "local_lr_auto: true"),
)
POLICIES_REFUSED = ("'plateau' gamma: 0.1 plateau_winsize: 3", "'nonsense'", "'step' gamma: 0.1")


@pytest.mark.parametrize("row", KEPT.values(), ids=KEPT)
def test_layer_is_kept(row: str) -> None:
    assert net(DATA + row).network.layers


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_layer_is_refused_with_line_and_way_out(row: str) -> None:
    with pytest.raises(ConfigError) as caught:
        net(DATA + row)
    _check_refusals(str(caught.value), r"a\.prototxt:\d+: layer '\w+': ")


def _check_refusals(text: str, begin: str) -> None:
    for line in text.splitlines():
        assert re.match(begin, line), line
        assert re.search(r"expected|leave (it )?out|give |did you mean|one of", line), line


def _solver(fields: str, policy: str, folder: Path) -> str:
    (folder / "net.prototxt").write_text(SMALL)
    path = folder / "solver.prototxt"
    path.write_text(f'net: "net.prototxt" base_lr: 0.4 max_iter: 10\nlr_policy: {policy}\n{fields}')
    text = import_caffe(path, "a.json").config_toml
    assert text is not None
    return text


@pytest.mark.parametrize("fields", SOLVERS_KEPT)
def test_field_of_a_solver_is_kept(fields: str, tmp_path: Path) -> None:
    assert _solver(fields, "'fixed'", tmp_path)


@pytest.mark.parametrize("policy", POLICIES_KEPT)
def test_policy_is_kept(policy: str, tmp_path: Path) -> None:
    assert _solver("", policy, tmp_path)


@pytest.mark.parametrize("fields", SOLVERS_REFUSED)
def test_field_of_a_solver_is_refused_with_line_and_way_out(fields: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _solver(fields, "'fixed'", tmp_path)
    _check_refusals(str(caught.value), r".*/solver\.prototxt:\d+: ")


@pytest.mark.parametrize("policy", POLICIES_REFUSED)
def test_policy_is_refused_with_line_and_way_out(policy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _solver("", policy, tmp_path)
    _check_refusals(str(caught.value), r".*/solver\.prototxt:\d+: ")
