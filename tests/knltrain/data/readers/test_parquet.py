from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.parquet import open_parquet
from knltrain.errors import BrokenPicture, DataError

from .written import check, pictures

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
NAMES = ["cat", "dog", "fox", "owl"]


def write(
    path: Path,
    pixels: np.ndarray,
    labels: np.ndarray,
    names: list[str] | None = None,
    **others: list[int],
) -> None:
    """As Hugging Face writes pictures, PNG, in groups of three rows."""
    files = []
    for each in pixels:
        file = BytesIO()
        Image.fromarray(each).save(file, "PNG")
        files.append({"bytes": file.getvalue(), "path": "a.png"})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"img": pa.array(files, kind), "label": labels, **others})
    told = {"img": {"_type": "Image"}}
    for name in ["label", *others]:
        told[name] = {"_type": "ClassLabel", "names": names}
    if names:
        info = {"huggingface": json.dumps({"info": {"features": told}})}
        table = table.replace_schema_metadata(info)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=3)


def test_pictures_of_several_files_are_decoded_and_classes_named(tmp_path: Path) -> None:
    pixels, labels = pictures(11)
    write(tmp_path / "data/train-00000-of-00002.parquet", pixels[:7], labels[:7], NAMES)
    write(tmp_path / "data/train-00001-of-00002.parquet", pixels[7:], labels[7:], NAMES)
    write(tmp_path / "data/test-00000-of-00001.parquet", pixels[:2], labels[:2], NAMES)
    source = open_parquet(DataFiles(tmp_path), "train")
    check(source, pixels, labels)
    assert source.class_names == tuple(NAMES)
    assert source.picture_name(9).endswith("train-00001-of-00002.parquet, row 2")
    check(open_parquet(DataFiles(tmp_path), "test"), pixels[:2], labels[:2])


def test_files_without_metadata_and_in_folders_of_halves_are_read(tmp_path: Path) -> None:
    pixels, labels = pictures(4)
    write(tmp_path / "plain/train/0000.parquet", pixels, labels)
    source = open_parquet(DataFiles(tmp_path), "train")
    check(source, pixels, labels)
    assert source.class_names == ()
    assert open_parquet(DataFiles(tmp_path), "test") is None


def test_one_of_several_labels_is_to_be_named(tmp_path: Path) -> None:
    pixels, labels = pictures(4)
    write(tmp_path / "train.parquet", pixels, labels, NAMES, coarse=[1, 0, 1, 0])
    with pytest.raises(DataError, match=r"data\.label, such as label or coarse"):
        open_parquet(DataFiles(tmp_path), "train")
    with pytest.raises(DataError, match=r"data\.label = 'fine': has columns img, label, coarse"):
        open_parquet(DataFiles(tmp_path, label="fine"), "train")
    source = open_parquet(DataFiles(tmp_path, label="coarse"), "train")
    assert source.labels.tolist() == [1, 0, 1, 0]


def test_metadata_may_tell_of_columns_that_are_gone(tmp_path: Path) -> None:
    pixels, labels = pictures(4)
    path = tmp_path / "train.parquet"
    write(path, pixels, labels, NAMES, coarse=[1, 0, 1, 0])
    pq.write_table(pq.read_table(path).drop_columns(["coarse"]), path)
    assert open_parquet(DataFiles(tmp_path), "train").labels.tolist() == labels.tolist()
    pq.write_table(pq.read_table(path).drop_columns(["label"]), path)
    with pytest.raises(DataError, match="has columns img: expected one with labels"):
        open_parquet(DataFiles(tmp_path), "train")


def test_a_row_without_a_picture_is_broken(tmp_path: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.array([{"bytes": None, "path": "a.png"}, None, {"bytes": b"xy", "path": ""}], kind)
    pq.write_table(pa.table({"image": rows, "label": [0, 1, 0]}), tmp_path / "train.parquet")
    source = open_parquet(DataFiles(tmp_path), "train")
    for row in range(3):
        with pytest.raises(BrokenPicture, match=rf"train\.parquet, row {row}: "):
            source.picture(row)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": [0]}), path)
    with pytest.raises(DataError, match="has columns text, label: expected one with pictures"):
        open_parquet(DataFiles(tmp_path), "train")
    content = path.read_bytes()
    for kept in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:kept])
        with pytest.raises(DataError, match=r"train\.parquet: no whole parquet file"):
            open_parquet(DataFiles(tmp_path), "train")


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    pixels, labels = pictures(2)
    write(tmp_path / "train-0.parquet", pixels, labels)
    write(tmp_path / "train-1.parquet", pixels, labels, coarse=[1, 0])
    with pytest.raises(DataError, match=r"train-1\.parquet: other columns than in .*train-0"):
        open_parquet(DataFiles(tmp_path), "train")


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.parquet").touch()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"pip install 'knltrain\[parquet\]'"):
        open_parquet(DataFiles(tmp_path), "train")


def test_a_damaged_file_of_several_is_named(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"train-{number}.parquet", *pictures(4))
    content = (tmp_path / "train-1.parquet").read_bytes()
    (tmp_path / "train-1.parquet").write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"train-1\.parquet: no whole parquet file"):
        open_parquet(DataFiles(tmp_path), "train")


@pytest.mark.parametrize("form", ["plain", "dictionary"])
def test_texts_are_names_of_classes(tmp_path: Path, form: str) -> None:
    pixels, _ = pictures(4)
    for half, labels in (("train", ["fox", "cat", "cat", "owl"]), ("test", ["owl", "cat"] * 2)):
        column = pa.array(labels)
        write(
            tmp_path / f"{half}.parquet",
            pixels,
            column.dictionary_encode() if form == "dictionary" else column,
        )
    for half, expected in (("train", [1, 0, 0, 2]), ("test", [2, 0, 2, 0])):
        source = open_parquet(DataFiles(tmp_path), half)
        assert source.class_names == ("cat", "fox", "owl")
        assert source.labels.tolist() == expected
    write(tmp_path / "test.parquet", pixels, pa.array(["owl", "cat", "elk", "owl"]))
    with pytest.raises(DataError, match=r"label, row 2: unknown class 'elk'"):
        open_parquet(DataFiles(tmp_path), "test")
    write(tmp_path / "train.parquet", pixels, pa.array(["owl", None, "elk", "owl"]))
    with pytest.raises(DataError, match=r"labels have shape \(4,\) and type object"):
        open_parquet(DataFiles(tmp_path), "train")


def test_a_name_for_two_classes_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", *pictures(4), ["cat", "dog", "cat", "owl"])
    with pytest.raises(DataError, match=r"train\.parquet: names class 'cat' twice"):
        open_parquet(DataFiles(tmp_path), "train")
