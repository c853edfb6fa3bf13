"""Names become objects, or are refused with what is known; nothing heavy before it is needed."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from knltrain.assembly.names import (
    OPTIMIZERS,
    build_backend,
    build_center_formats,
    build_dataset,
    build_method,
    build_network,
    build_optimizer,
    build_wire_format,
    check_names,
    image_shape_of,
    network_size,
    written_for_the_wire,
)
from knltrain.backends.torch import installed
from knltrain.communication.internode.collective import OneNode
from knltrain.communication.internode.wire.compressed import CompressedCollective
from knltrain.data import extent
from knltrain.data.dataset import Batch
from knltrain.errors import BrokenPicture, ConfigError, DataError, NetworkError

from ..data.readers.written import write_idx


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("network__name", "lenett", "network.name 'lenett': .* did you mean 'lenet'"),
        ("data__name", "digit", "data.name 'digit': .* did you mean 'digits'"),
        ("optimizer__name", "sdg", "optimizer.name 'sdg': .* did you mean 'sgd'"),
        ("exchange__method", "sync_easg", "exchange.method 'sync_easg': .* mean 'sync_easgd'"),
        ("backend__name", "gpu", "backend.name 'gpu': expected one of 'cpu', 'torch'"),
        ("backend__implementation", "onednm", "backend.implementation .* mean 'onednn'"),
    ],
)
def test_unknown_name_is_refused_with_the_known_ones(config, key, given, expected):
    with pytest.raises(ConfigError, match=f"unknown {expected}"):
        check_names(config(**{key: given}))


def test_known_names_pass(config):
    for method in ("sync_easgd", "sync_sgd", "none"):
        check_names(config(exchange__method=method))


def test_module_that_was_not_imported_is_refused_with_the_commands_that_do(config):
    chosen = config(network__name="own.py:build", network__module="own.py:build")
    check_names(chosen)
    with pytest.raises(ConfigError, match=r"'own.py:build' was not imported, which .* train"):
        build_network(chosen)


@pytest.mark.parametrize(("side", "shape"), [(None, (28, 28, 1)), (40, (40, 40, 1))])
def test_shape_of_images_is_known_before_they_are_read(config, side, shape):
    assert image_shape_of(config(data__side_pixels=side)) == shape


def test_engine_that_is_not_installed_is_refused(config, monkeypatch):
    chosen = config(backend__engine="ipex")
    monkeypatch.setattr(installed, "check_ipex", lambda: None)
    check_names(chosen)

    def absent():
        raise ConfigError("no IPEX here")

    monkeypatch.setattr(installed, "check_ipex", absent)
    check_names(config())
    with pytest.raises(ConfigError, match="no IPEX here"):
        check_names(chosen)


def test_names_and_sizes_are_known_without_any_heavy_import():
    code = """
import sys
from knltrain.assembly import check_names, network_size
from knltrain.config import RunConfig
config = RunConfig.model_validate({"network": {"name": "lenet"}, "data": {"name": "digits"},
    "train": {"steps": 5, "batch": 8}, "learning_rate": {"base": 0.1}})
check_names(config)
network_size(config)
print([name for name in ("numpy", "numba", "torch", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_who_only_reads_data_needs_neither_a_compiler_nor_decoders():
    code = """
import sys
from knltrain.assembly import build_dataset
from knltrain.config import RunConfig
build_dataset(RunConfig.model_validate({"network": {"name": "lenet"}, "data": {"name": "digits",
    "recipe": "cifar", "mixup": 0.2}, "train": {"steps": 5, "batch": 8},
    "learning_rate": {"base": 0.1}}))
heavy = ("numba", "torch", "matplotlib", "PIL", "simplejpeg", "lmdb", "h5py", "pyarrow")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_size_is_that_of_the_packed_vector(config):
    network = build_network(config())
    assert network_size(config()) == network.packed_size >= network.parameter_count == 431_080


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    ("implementation", "kernels"),
    [
        ("numba", "numba"),
        ("onednn", "numba"),
        ("reference", "reference"),
    ],
)
def test_kernels_beside_the_network_follow_the_implementation(
    config, implementation, kernels, name
):
    chosen = config(backend__implementation=implementation, optimizer__name=name)
    optimizer = build_optimizer(chosen, build_network(chosen))
    method = build_method(chosen, 1)
    file = name if name in ("sgd", "lars", "adamw") else "adaptive"
    assert optimizer._update.__module__ == f"vectorized_ops.{kernels}.{file}"
    assert method.rule._kernels.__name__ == f"vectorized_ops.{kernels}.elastic"


@pytest.mark.parametrize(("name", "expected"), [("torch", "TorchBackend"), ("cpu", "CpuBackend")])
def test_backend_is_the_one_that_is_named(config, name, expected):
    chosen = config(backend__name=name)
    backend = build_backend(chosen, build_network(chosen), 2, 1)
    assert type(backend).__name__ == expected
    backend.close()


def test_auxiliary_outputs_have_the_weights_that_are_configured(config):
    own = build_network(config(network__name="googlenet"))
    chosen = config(network__name="googlenet", loss__auxiliary_weights=[0.5, 0.25])
    found = build_network(chosen)
    assert [each.weight for each in found.outputs] == [1.0, 0.5, 0.25]
    assert [each.layer for each in found.outputs] == [each.layer for each in own.outputs]
    wrong = config(network__name="lenet", loss__auxiliary_weights=[0.5])
    with pytest.raises(ConfigError, match=r"\[0.5\]: network 'lenet' has 0 auxiliary outputs"):
        build_network(wrong)


@pytest.mark.parametrize("backend", [{"name": "torch"}, {"name": "cpu"}])
def test_labels_are_smoothed_as_configured(config, backend):
    """Of logits that are all equal the loss stays the same; its gradient is smaller."""
    gradients = []
    for smoothing in (0.0, 0.25):
        keys = {f"backend__{key}": value for key, value in backend.items()}
        chosen = config(**keys, loss__label_smoothing=smoothing)
        network = build_network(chosen)
        made = build_backend(chosen, network, 2, 1)
        packed = [np.zeros(network.packed_size, np.float32) for _ in range(2)]
        loss = made.loss_and_gradient(Batch.allocate(2, network.input_shape), *packed)
        assert loss == pytest.approx(np.log(10))
        gradients.append(np.linalg.norm(packed[1]))
        made.close()
    assert gradients[1] == pytest.approx(0.75 * gradients[0])


@pytest.mark.parametrize("name", ["bfloat16", "int8", "float4", "top_k"])
def test_sums_between_nodes_are_written_in_the_format_that_is_named(config, name):
    chosen = config(exchange__wire_format=name)
    assert build_wire_format(chosen, 1000).name == name
    made = written_for_the_wire(chosen, OneNode(), 1000)
    assert isinstance(made, CompressedCollective)
    values = np.arange(1000, dtype=np.float32)
    made.all_reduce(values)
    assert values[-1] == pytest.approx(999, rel=0.01)


@pytest.mark.parametrize("name", ["bfloat16", "int8", "float4", "top_k"])
def test_centers_elsewhere_are_added_to_as_named_and_read_as_bfloat16(config, name):
    formats = build_center_formats(config(exchange__wire_format=name), 1000)
    assert (formats.added.name, formats.read.name) == (name, "bfloat16")
    assert not formats.read.keeps_residual


def test_float32_goes_as_the_collective_has_it(config):
    alone = OneNode()
    assert build_center_formats(config(), 1000) is None
    assert build_wire_format(config(), 1000) is None
    assert written_for_the_wire(config(), alone) is alone


def test_share_of_the_largest_is_a_hundredth_unless_told_otherwise(config):
    for chosen, share in (({}, 0.01), ({"exchange__wire_top_share": 0.25}, 0.25)):
        made = build_wire_format(config(exchange__wire_format="top_k", **chosen), 80_000)
        assert made.bytes_for(80_000) == 8 * 80_000 * share


def test_network_has_the_multipliers_and_frozen_layers_of_the_configuration(config):
    chosen = config(
        network__frozen=["conv1*"],
        network__multipliers=[{"pattern": "*.bias", "learning_rate": 2.0, "weight_decay": 0.0}],
    )
    factors = {
        spec.name: (spec.learning_rate_multiplier, spec.decay_multiplier)
        for spec in build_network(chosen).parameters
    }
    assert factors["conv1.weights"] == (0, 1)
    assert factors["conv2.weights"] == (1, 1)
    plain = {spec.name: spec for spec in build_network(config()).parameters}
    assert factors["conv2.bias"] == (2 * plain["conv2.bias"].learning_rate_multiplier, 0)
    with pytest.raises(NetworkError, match=r"in network.frozen 'cnov1'.*did you mean 'conv1'"):
        build_network(config(network__frozen=["cnov1"]))


WHOLE = {"data__train_images": None, "data__test_images": None}


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """An image folder of two classes, in which one picture is truncated."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    random = np.random.default_rng(0)
    for half, name, number in itertools.product(("train", "test"), "ab", range(2)):
        path = tmp_path / "root" / half / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (8, 12, 3), np.uint8)).save(path)
    broken = tmp_path / "root/train/b/0.png"
    broken.write_bytes(broken.read_bytes()[:-40])
    return {"data__name": "folder", "data__root": str(tmp_path / "root"), **WHOLE}


def test_image_folders_are_data_sets(config, pictures):
    assert image_shape_of(config(**pictures)) == (8, 12, 3)
    assert image_shape_of(config(**pictures, data__channels=1)) == (8, 12, 1)
    assert image_shape_of(config(**pictures, data__side_pixels=16)) == (16, 16, 3)
    with pytest.raises(BrokenPicture, match=r"train/b/0.png: cannot be decoded"):
        build_dataset(config(**pictures))
    dataset = build_dataset(config(**pictures, data__broken="skip"))
    assert (dataset.classes, dataset.train.image_shape) == (2, (8, 12, 3))
    batch = Batch.allocate(4, (8, 12, 3))
    dataset.train.write(np.arange(4), batch)
    assert batch.labels.tolist() == [0, 1, 0, 1]
    assert np.array_equal(batch.images_nhwc[1], batch.images_nhwc[3])
    assert not np.array_equal(batch.images_nhwc[0], batch.images_nhwc[2])


def test_rules_of_decoding_are_those_of_the_user(config, pictures):
    with pytest.raises(BrokenPicture, match=r"expected at most 95 .*raise data.max_pixels"):
        build_dataset(config(**pictures, data__max_pixels=95))
    with pytest.raises(ConfigError, match=r"data.exif = True: .*'digits' does not read it, only "):
        check_names(config(data__exif=True))
    with pytest.raises(ConfigError, match=r"data.first_label = 7: data.name = 'folder' does not"):
        check_names(config(data__name="folder", data__first_label=7))
    with pytest.raises(
        ConfigError, match=r"data.follow_links = True: .* only folder, list: leave it"
    ):
        check_names(config(data__name="tar", data__follow_links=True))


@pytest.mark.parametrize(("suffix", "told"), [("", ""), (".gz", "take 980 B, and 979 B of memory")])
def test_room_is_needed_for_the_half_that_is_in_memory(config, tmp_path, monkeypatch, suffix, told):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 7, 7), np.uint8)
    for half, end in (("train", suffix), ("test", "")):
        write_idx(tmp_path / f"{half}-images-idx3{end}", pixels)
        write_idx(tmp_path / f"{half}-labels-idx1{end}", np.arange(20) % 10)
    chosen = config(data__name="idx", data__root=str(tmp_path), **WHOLE)
    monkeypatch.setattr(extent, "available_bytes", lambda: 979)
    if not told:
        build_dataset(chosen, 2)
        return
    with pytest.raises(DataError, match=told):
        build_dataset(chosen, 2)
    monkeypatch.setattr(extent, "available_bytes", lambda: 980)
    build_dataset(chosen, 2)


def test_transposed_images_are_turned_upright(config, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 7, 5), np.uint8)
    for half in ("train", "test"):
        write_idx(tmp_path / f"{half}-images-idx3", pixels)
        write_idx(tmp_path / f"{half}-labels-idx1", np.arange(20) % 10)
    chosen = {"data__name": "idx", "data__root": str(tmp_path), **WHOLE}
    assert image_shape_of(config(**chosen)) == (7, 5, 1)
    dataset = build_dataset(config(**chosen, data__transposed=True))
    assert np.array_equal(dataset.test.source.picture(3)[..., 0], pixels[3].T)
    with pytest.raises(ConfigError, match=r"data.transposed = True: .* only idx: leave it"):
        check_names(config(data__transposed=True))
