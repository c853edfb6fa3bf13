"""[data] becomes a recipe, a normalisation and what mixes images."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from knltrain.assembly.factories import numba_kernels, reference_kernels
from knltrain.assembly.names import build_dataset
from knltrain.assembly.preprocessing import (
    images_for,
    mixing_of,
    model_preprocessing,
    preprocessing_of,
    read_mean_file,
    recipe_of,
    rehearse_pass,
    with_numbers,
)
from knltrain.config import DataConfig
from knltrain.data.augmentation.recipes import RECIPES
from knltrain.data.blocks import block_order
from knltrain.data.dataset import Batch, Halves, LabelledImages
from knltrain.data.order import EpochOrders, epoch_order
from knltrain.data.preprocessing import Draws
from knltrain.data.source import ArraySource
from knltrain.errors import ConfigError, DataError
from tests.knltrain.data.given import source_of
from vectorized_ops.numba.compiling.journal import JOURNAL
from vectorized_ops.numba.kernels.pictures import lines

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture
def halves() -> Halves:
    rng = np.random.default_rng(0)
    train, test = (
        source_of(rng.integers(0, 256, (count, 8, 8, 3), np.uint8), np.arange(count) % 4, 4)
        for count in (12, 5)
    )
    return Halves("some", train, test)


@pytest.mark.parametrize("recipe", ["none", "caffe", "inception", "randaugment"])
def test_both_implementations_make_the_same_images(halves: Halves, recipe: str) -> None:
    config = DataConfig(name="some", recipe=recipe, network_order="bgr")
    found = []
    for kernels in (reference_kernels(), numba_kernels()):
        out = np.empty((12, 6, 6, 3), np.float32)
        made = preprocessing_of(config, halves, (6, 6, 3), kernels)
        made.write(halves.train, np.arange(12), Draws(1, 2), out)
        found.append(out)
    assert np.array_equal(*found)


@pytest.mark.parametrize("order", ["rgb", "bgr"])
def test_one_rehearsal_compiles_the_pass_for_all_pictures(halves: Halves, order: str) -> None:
    data = DataConfig(name="some", recipe="randaugment", network_order=order)
    rehearse_pass(data, (6, 6, 3), numba_kernels(), copies=False)
    before, signatures = len(JOURNAL.made), len(lines.write_lines.signatures)
    for recipe in ("none", "vgg", "inception", "randaugment"):
        config = DataConfig(name="some", recipe=recipe, network_order=order)
        out = np.empty((12, 6, 6, 3), np.float32)
        made = preprocessing_of(config, halves, (6, 6, 3), numba_kernels())
        made.write(halves.train, np.arange(12), Draws(1, 2), out)
    assert len(lines.write_lines.signatures) == signatures
    assert len(JOURNAL.made) == before


def test_images_are_shuffled_as_data_order_says_and_the_run_is_told(config) -> None:
    plain = build_dataset(config())
    assert (plain.train.block_images, plain.notes) == (None, ())
    found = build_dataset(config(data__order="blocks", data__block_images=2))
    assert (found.train.block_images, found.test.block_images) == (2, None)
    assert "no true shuffle" in found.notes[0]
    orders = [EpochOrders(each.train, 1).of(0).tolist() for each in (plain, found)]
    assert orders == [
        epoch_order(len(plain.train), 1, 0).tolist(),
        block_order(len(plain.train), 2, 1, 0).tolist(),
    ]


@pytest.mark.parametrize(("recipe", "side"), [("none", 8), ("cifar", 8), ("none", 6), ("vgg", 8)])
def test_copies_are_all_that_the_small_kernel_makes_alone(
    halves: Halves, monkeypatch: pytest.MonkeyPatch, recipe: str, side: int
) -> None:
    called: list[object] = []
    monkeypatch.setattr(lines, "write_lines", lambda *given: called.append(given))
    config, shape = DataConfig(name="some", recipe=recipe), (side, side, 3)
    made = preprocessing_of(config, halves, shape, numba_kernels())
    made.write(halves.train, np.arange(12), Draws(1, 2), np.empty((12, *shape), np.float32))
    assert made.copies(halves.train) is not bool(called)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("operations", [None, 0, 1])
def test_configurations_know_whether_their_recipe_operates(
    recipe: str, operations: int | None
) -> None:
    config = DataConfig(name="some", recipe=recipe, operations=operations)
    assert config.operates is (recipe_of(config, (8, 8, 3)).operations > 0)


def test_jitter_replaces_that_of_the_recipe() -> None:
    for given, expected in ((None, 0.4), (0.0, 0.0), (0.9, 0.9)):
        config = DataConfig(name="some", recipe="inception", jitter=given)
        assert recipe_of(config, (8, 8, 3)).jitter == expected


def test_images_are_mixed_only_where_that_is_asked_for() -> None:
    assert mixing_of(DataConfig(name="some")) is None
    assert mixing_of(DataConfig(name="some", cutmix=1.0)) is not None


def test_every_recipe_has_its_name_in_configurations() -> None:
    names = get_args(DataConfig.model_fields["recipe"].annotation)
    assert sorted(names) == sorted(RECIPES)


@pytest.mark.parametrize("shape", [(3, 5, 7), (5, 7, 3)])
def test_mean_files_are_read_in_either_order(tmp_path: Path, shape: tuple[int, ...]) -> None:
    mean = np.random.default_rng(0).normal(size=(5, 7, 3)).astype(np.float32)
    np.save(tmp_path / "mean.npy", mean if shape[2] == 3 else mean.transpose(2, 0, 1))
    assert np.array_equal(read_mean_file(tmp_path / "mean.npy"), mean)


def test_files_without_a_mean_picture_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "mean.npy", np.zeros((4, 5)))
    with pytest.raises(DataError, match=r"mean\.npy holds an array float64 \(4, 5\): expected num"):
        read_mean_file(tmp_path / "mean.npy")
    for wrong in (np.full((3, 4, 5), "a"), np.ones((3, 4, 5), complex)):
        np.save(tmp_path / "mean.npy", wrong)
        with pytest.raises(DataError, match=r"mean\.npy holds an array .*: expected numbers"):
            read_mean_file(tmp_path / "mean.npy")
    for value in (np.nan, 1e300):  # which float32 does not hold
        np.save(tmp_path / "mean.npy", np.full((3, 4, 5), value))
        with pytest.raises(DataError, match=r"mean\.npy holds values that are not finite"):
            read_mean_file(tmp_path / "mean.npy")
    np.savez(tmp_path / "a.npz", mean=np.ones((3, 4, 5)))
    for content in (b"", (tmp_path / "a.npz").read_bytes()):
        (tmp_path / "mean.npy").write_bytes(content)
        with pytest.raises(DataError, match=r"data\.mean_file: .*mean\.npy.*expected a mean pic"):
            read_mean_file(tmp_path / "mean.npy")
    for name in ("none.npy", "none.binaryproto"):
        with pytest.raises(DataError, match=rf"data\.mean_file: .*{name}.*expected a mean picture"):
            read_mean_file(tmp_path / name)
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(DataError, match=r"data\.mean_file: .*expected a mean picture"):
        read_mean_file(tmp_path / "text.npy")


def test_mean_of_imagenet_is_read_as_caffe_wrote_it() -> None:
    """Blue, green and red, of 256 x 256 pixels."""
    path = SHARED / "caffe" / "imagenet_256x256_mean.binaryproto"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    mean = read_mean_file(path)
    assert mean.shape == (256, 256, 3)
    assert mean.mean(axis=(0, 1)) == pytest.approx([104, 117, 123], abs=1)


def _shard(path: Path) -> ArraySource:
    simplejpeg = pytest.importorskip("simplejpeg")
    if not path.exists():
        pytest.skip(f"{path} is not there")
    found: dict[str, dict[str, bytes]] = {"jpg": {}, "cls": {}}
    with tarfile.open(path) as archive:
        for member in archive:
            key, _, kind = member.name.partition(".")
            file = archive.extractfile(member) or io.BytesIO()
            found[kind][key] = file.read()
    keys = sorted(found["jpg"])
    pixels = np.stack([simplejpeg.decode_jpeg(found["jpg"][key]) for key in keys])
    return source_of(pixels, np.array([int(found["cls"][key]) for key in keys]), 10)


@pytest.mark.slow
def test_a_network_that_caffe_trained_is_as_right_as_in_caffe(tmp_path: Path) -> None:
    """78.85 % of CIFAR-10's test half, less the mean picture, in red, green, blue."""
    from knltrain.backends.cpu import CpuBackend
    from knltrain.evaluation import Evaluator
    from knltrain.exchange.transports.loopback import Loopback
    from knltrain.interchange.weights import load_weights
    from knltrain.network.parameters import ParameterVector
    from knltrain.network.zoo.networks import network_named

    train, test = (
        _shard(SHARED / "cifar10-jpeg" / f"{half}-000000.tar") for half in ("train", "test")
    )
    mean = train.pixels.mean(axis=0, dtype=np.float64)
    np.save(tmp_path / "mean.npy", mean.transpose(2, 0, 1))
    config = DataConfig(name="some", mean_file=str(tmp_path / "mean.npy"), deviation=1.0)
    halves = Halves("some", train, test)
    made = preprocessing_of(config, halves, (32, 32, 3), numba_kernels())
    network = network_named("cifar-full", 10)
    parameters = ParameterVector(network)
    load_weights(parameters, SHARED / "caffe" / "cifar10_full_iter_70000.caffemodel")
    backend = CpuBackend(network, 100, 1, "numba", True, 0)
    evaluator = Evaluator(LabelledImages(test, made), backend, Loopback(1), 100, 10)
    found = evaluator.evaluate(parameters.packed, 0)
    backend.close()
    assert found.images == 10_000
    assert found.accuracy == pytest.approx(0.7885, abs=0.002)


@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("kind", ["softmax_cross_entropy", "mean_squared_error"])
def test_mixed_images_train_a_network_that_is_tested_on_plain_ones(
    config, make_worker, tmp_path, backend, kind
):
    chosen = config(
        data__mixup=0.2,
        data__cutmix=1.0,
        backend__name=backend,
        loss__kind=kind,
        loss__label_smoothing=0.1 if kind == "softmax_cross_entropy" else 0.0,
    )
    dataset = build_dataset(chosen)
    batch = Batch.allocate(4, dataset.train.image_shape, dataset.train.label_shape)
    dataset.train.write(np.arange(4), batch, Draws(1, 0))
    assert batch.labels.shape == (4, 10)
    worker = make_worker(chosen, tmp_path)
    worker.run()
    assert worker.evaluation.images == 20


def test_a_run_is_tested_by_ten_crops_of_each_picture(config, make_worker, tmp_path):
    chosen = config(
        data__recipe="caffe", data__side_pixels=28, evaluation__crops=10, train__steps=1
    )
    dataset = build_dataset(chosen)
    assert len(dataset.test_crops) == 10
    worker = make_worker(chosen, tmp_path)
    worker.run()
    assert worker.evaluation.images == 20


@pytest.mark.parametrize("recipe", ["cifar", "inception"])
def test_numbers_of_a_model_make_the_same_images_as_its_training_tested(config, recipe):
    chosen = config(data__recipe=recipe, data__side_pixels=28, data__network_order="bgr")
    dataset = build_dataset(chosen)
    known = model_preprocessing(chosen.data, dataset)
    assert known.class_names == dataset.test.source.class_names
    (made,) = images_for(known, reference_kernels())
    assert len(images_for(known, reference_kernels(), 10)) == 10 if recipe != "cifar" else True
    rows, images = np.arange(6), np.zeros((2, 6, *known.image_shape), np.float32)
    for each, out in zip((dataset.test.preprocessing, made), images, strict=True):
        each.write(dataset.test.source, rows, None, out)
    np.testing.assert_array_equal(images[0], images[1])


def test_what_was_measured_is_written_down_as_numbers_that_mean_the_same(config):
    chosen = config(data__deviation=3.0)
    known = model_preprocessing(chosen.data, build_dataset(chosen))
    numbers = with_numbers(chosen, known)
    assert numbers.data.mean == tuple(known.mean)
    assert numbers.data.deviation == 3.0
    again = model_preprocessing(numbers.data, build_dataset(numbers))
    assert again.to_json() == known.to_json()


def test_a_mean_picture_stays_one(config, tmp_path):
    np.save(tmp_path / "mean.npy", np.full((28, 28, 1), 5.0))
    chosen = config(data__mean_file=str(tmp_path / "mean.npy"))
    known = model_preprocessing(chosen.data, build_dataset(chosen))
    assert known.normalisation.mean_picture.mean() == 5
    numbers = with_numbers(chosen, known).data
    assert (numbers.mean, numbers.deviation) == ("training", tuple(known.deviation))


def test_a_mean_file_that_is_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mean.npy")
    with pytest.raises(
        DataError, match=r"data\.mean_file: .*mean\.npy: cannot be read \(it is a F"
    ):
        read_mean_file(tmp_path / "mean.npy")


def test_images_that_would_move_out_of_sight_are_refused() -> None:
    chosen = DataConfig(name="digits", shift_pixels=28)
    with pytest.raises(ConfigError, match=r"data\.shift_pixels = 28: images of 28 x 28 pixels"):
        recipe_of(chosen, (28, 28, 1))
    assert recipe_of(DataConfig(name="digits", shift_pixels=27), (28, 28, 1))
