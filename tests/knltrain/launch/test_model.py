"""A trained model tells the classes of pictures: files, bytes and arrays."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from knltrain.backends.loss import Telling
from knltrain.errors import BrokenPicture, ConfigError, DataError, RunFolderError
from knltrain.launch.evaluate_run import evaluate_run
from knltrain.launch.model import Model, Prediction, load_model
from knltrain.launch.run_folder import PREPROCESSING
from vectorized_ops.numba.emit import bfloat16

from ..trained_run import KINDS, picture_of, trained_run, write_pictures

HAND_SIGNS = Path(__file__).resolve().parents[4] / "shared/data/hand-signs.tar"
NAMES = {"dark": "night", "light": "day", "split": "dusk"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("pictures"), NAMES)


@pytest.fixture(scope="module")
def run_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("runs") / "run", root)


@pytest.fixture
def model(run_folder: Path) -> Model:
    return load_model(run_folder)


def test_paths_bytes_and_arrays_of_new_pictures_get_the_names_of_their_classes(
    model: Model, root: Path
) -> None:
    assert model.class_names == ("day", "dusk", "night")
    file = root / "test/night/3.png"
    found = model.predict([file, file.read_bytes(), picture_of("dark", 103)])
    assert [each.class_name for each in found] == ["night"] * 3
    assert [each.name for each in found] == [str(file), "picture 1", "picture 2"]
    np.testing.assert_array_equal(found[0].values, found[1].values)
    np.testing.assert_allclose(found[0].values, found[2].values, atol=1e-3)
    for each in found:
        assert each.values.sum() == pytest.approx(1, abs=1e-5)
        assert each.probability == max(each.values) > 0.5
    whole = np.stack([picture_of(kind, 200) for kind in KINDS])
    assert [each.class_name for each in model.predict(whole)] == ["night", "day", "dusk"]


def test_more_pictures_than_fit_at_once_keep_their_order(model: Model) -> None:
    kinds = [KINDS[number * number % 3] for number in range(31)]
    found = model.predict(picture_of(kind, 300 + row) for row, kind in enumerate(kinds))
    assert [each.class_name for each in found] == [NAMES[kind] for kind in kinds]
    alone = model.predict([picture_of(kinds[30], 330)])
    np.testing.assert_allclose(alone[0].values, found[30].values, rtol=1e-4)


def test_pictures_are_prepared_as_in_evaluation(model: Model, run_folder: Path, root: Path) -> None:
    """The same loss, from probabilities one by one."""
    files = sorted((root / "test").rglob("*.png"))
    losses = [
        -np.log(found.values[model.class_names.index(file.parent.name)])
        for file, found in zip(files, model.predict(files), strict=True)
    ]
    assert evaluate_run(run_folder).found.loss == pytest.approx(np.mean(losses), rel=1e-4)
    ten = model.predict(files, crops=10)
    by_ten = evaluate_run(run_folder, ["evaluation.crops=10"]).found.loss
    told = [
        -np.log(found.values[model.class_names.index(file.parent.name)])
        for file, found in zip(files, ten, strict=True)
    ]
    assert by_ten == pytest.approx(np.mean(told), rel=1e-4)


BFLOAT16 = {
    "backend__name": "cpu",
    "backend__implementation": "numba",
    "backend__precision": "bfloat16",
    "backend__emulate_bfloat16": not bfloat16.IS_NATIVE,
}


def test_a_model_in_bfloat16_goes_to_a_processor_without_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = trained_run(tmp_path / "run", root, **BFLOAT16)
    pictures = [picture_of(kind, 400) for kind in KINDS]
    found = evaluate_run(run_folder).found
    config = run_folder / "config.toml"
    config.write_text(config.read_text().replace("emulate_bfloat16 = true", ""))
    monkeypatch.setattr(bfloat16, "IS_NATIVE", False)
    model = load_model(run_folder)
    (note,) = model.notes
    assert "no AVX512_BF16: evaluated in float32" in note
    assert [each.class_name for each in model.predict(pictures)] == ["night", "day", "dusk"]
    again = evaluate_run(run_folder)
    assert note in again.notes
    assert again.found.accuracy == found.accuracy == 1
    assert again.found.loss != found.loss


def test_no_data_set_is_read(run_folder: Path, root: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(run_folder, copied)
    text = (copied / "config.toml").read_text()
    (copied / "config.toml").write_text(text.replace(str(root), str(tmp_path / "gone")))
    with load_model(copied) as model:
        assert model.predict([picture_of("light", 1)])[0].class_name == "day"
        assert model.notes == ()
    (copied / PREPROCESSING).unlink()
    with pytest.raises(DataError, match="gone"):
        load_model(copied)


def test_older_runs_take_preprocessing_from_their_data(run_folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(run_folder, copied)
    (copied / PREPROCESSING).unlink()
    model = load_model(copied)
    (note,) = model.notes
    assert "no preprocessing.json" in note
    assert model.class_names == ("day", "dusk", "night")


def test_a_checkpoint_may_be_named(run_folder: Path) -> None:
    first = min(run_folder.glob("checkpoint-*"), key=lambda each: int(each.name[11:]))
    assert load_model(first).checkpoint == first
    assert load_model(first).step < load_model(run_folder).step
    assert evaluate_run(first).checkpoint == first
    with pytest.raises(RunFolderError, match="not the folder of a run"):
        load_model(run_folder.parent)


def test_broken_pictures_are_named_and_the_others_go_on(
    model: Model, root: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("no picture")
    good = root / "train/day/0.png"
    cut = good.read_bytes()[:100]
    given = [text, good, tmp_path / "gone.png", cut, np.zeros((4, 4, 2), np.uint8), good]
    found = list(model.each(given))
    assert [isinstance(each, Prediction) for each in found] == [False, True] + [False] * 3 + [True]
    for each, said in zip(
        found, ("text.jpg", "", "gone.png", "picture 3", "picture 4"), strict=False
    ):
        assert isinstance(each, Prediction) or said in str(each)
    with pytest.raises(BrokenPicture, match=r"text\.jpg"):
        model.predict(given)
    assert model.predict([]) == []


def test_single_pictures_and_other_crops_are_refused(model: Model) -> None:
    for wrong in ("a.png", b"1", picture_of("dark", 0)):
        with pytest.raises(DataError, match="expected a list of pictures"):
            model.predict(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="crops = 3: expected 1 or 10"):
        model.predict([], crops=3)


def test_preprocessing_of_another_network_is_refused(run_folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(run_folder, copied)
    path = copied / PREPROCESSING
    path.write_text(path.read_text().replace('"dusk",', '"dusk", "dawn",'))
    with pytest.raises(DataError, match=r"preprocessing.json: .* 4 classes, but network 'lenet'"):
        load_model(copied)


@pytest.mark.slow
@pytest.mark.skipif(not HAND_SIGNS.is_file(), reason="needs ../shared/data/hand-signs.tar")
def test_photographs_of_hands_are_told(tmp_path: Path) -> None:
    root = tmp_path / "hand-signs"
    with tarfile.open(HAND_SIGNS) as archive:
        archive.extractall(root, filter="data")
    pictures = sorted(root.rglob("*.JPG"))
    changes = {"data__test_share": 0.2, "data__root": str(pictures[0].parents[1])}
    run = trained_run(
        tmp_path / "run", root, **changes, network__classes=10, train__steps=300, train__batch=32
    )
    chosen = pictures[::20]
    with load_model(run) as model:
        found = model.predict(chosen)
    right = [each.class_name == file.parent.name for each, file in zip(found, chosen, strict=True)]
    assert np.mean(right) > 0.5


VALUES = np.array([0.25, 0.75, 0.5], np.float32)


@pytest.mark.parametrize(
    ("tells", "told"),
    [
        ("class", [("b", 0.75)]),
        ("classes", [("b", 0.75), ("c", 0.5)]),
        ("values", [("a", 0.25), ("b", 0.75), ("c", 0.5)]),
    ],
)
def test_what_is_told_follows_from_the_loss(tells: Telling, told: list[tuple[str, float]]) -> None:
    found = Prediction("x", VALUES, ("a", "b", "c"), tells)
    assert found.told == told
    assert found.top(2) == [("b", 0.75), ("c", 0.5)]


@pytest.mark.parametrize("kind", ["sigmoid_cross_entropy", "mean_squared_error"])
def test_values_of_other_losses(kind: str, root: Path, tmp_path: Path) -> None:
    folder = trained_run(tmp_path / "run", root, loss__kind=kind, train__steps=2)
    with load_model(folder) as model:
        (found,) = model.predict([picture_of("light", 5)])
        assert abs(found.values.sum() - 1) > 1e-4
        if kind == "sigmoid_cross_entropy":
            assert ((found.values > 0) & (found.values < 1)).all()
        else:
            with pytest.raises(ConfigError, match="'mean_squared_error' has not"):
                model.predict([], crops=10)
