"""Confusion matrices, written, read and drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from knltrain.confusion import Confusion, confusion_from_csv, confusion_to_csv, draw_counts
from knltrain.errors import RunFolderError

COUNTS = [[5, 0, 1], [0, 0, 0], [2, 3, 1234]]


@pytest.mark.parametrize("names", [["cat", "a, dog", '"x"\n'], []])
def test_a_table_is_read_back_with_the_names_of_its_classes(tmp_path: Path, names) -> None:
    table = tmp_path / "confusion.csv"
    table.write_text(confusion_to_csv(Confusion(COUNTS, names)), newline="")
    assert confusion_from_csv(table) == Confusion(COUNTS, names or ["0", "1", "2"])


def test_a_table_without_names_is_that_of_an_older_run(tmp_path: Path) -> None:
    (tmp_path / "confusion.csv").write_text("5,0\n2,3\n")
    assert confusion_from_csv(tmp_path / "confusion.csv") == Confusion([[5, 0], [2, 3]], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has 0 rows: expected as many as columns"),
        ("1,2\n", "has 1 rows"),
        ("1,2\n3\n", "has 2 rows"),
        ("1,2\n3,-4\n", "'-4' is no count"),
        ("1,2\n3,x\n", "'x' is no count"),
        ("1,2\n3,²\n", "'²' is no count"),
        (f"1,2\n3,{'9' * 5000}\n", "is no count"),
        ("1,2\n\n3,4\n", "'' is no count"),
        (",a,b\na,1,2\nc,3,4\n", "other names"),
        ('"1,2\n3,4\n', "damaged"),
    ],
)
def test_a_table_that_no_run_writes_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "confusion.csv").write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match=f"confusion.csv: .*{said}"):
        confusion_from_csv(tmp_path / "confusion.csv")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"none.csv: cannot be read \(No such file"):
        confusion_from_csv(tmp_path / "none.csv")


@pytest.mark.parametrize(("classes", "written", "most_ticks"), [(3, 5, 3), (60, 0, 25)])
def test_a_picture_has_numbers_where_there_is_room(
    tmp_path: Path,
    saved: list[Figure],
    classes: int,
    written: int,
    most_ticks: int,
) -> None:
    names = [f"$class^$ {number}" + "x" * number for number in range(classes)]
    counts = COUNTS if classes == 3 else [[number] * classes for number in range(classes)]
    draw_counts(Confusion(counts, names), tmp_path / "confusion.png", "title")
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert [each.name for each in tmp_path.iterdir()] == ["confusion.png"]
    axes = saved[0].axes[0]
    assert len([text for text in axes.texts if text.get_text()]) == written
    assert len(axes.get_xticks()) <= most_ticks
    for axis in (axes.xaxis, axes.yaxis):
        told = [label.get_text() for label in axis.get_ticklabels()]
        assert told[:2] == ["$class^$ 0", names[-(-classes // 25)][:20]]
        assert all(len(each) <= 20 for each in told)
    shown = axes.images[0].get_array()
    assert shown is not None
    if classes == 3:
        assert shown[0].tolist() == [pytest.approx(500 / 6), 0, pytest.approx(100 / 6)]
        assert shown[1].tolist() == [0, 0, 0]


def test_a_picture_that_cannot_be_written_is_named() -> None:
    with pytest.raises(RunFolderError, match=r"/sys/kernel/c.png: cannot be written"):
        draw_counts(Confusion(COUNTS), Path("/sys/kernel/c.png"), "title")


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    draw_counts(Confusion(COUNTS), tmp_path / "confusion.png", "no $formula^$")
    assert (tmp_path / "confusion.png").exists()
