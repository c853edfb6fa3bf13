"""All-reduces by formula, by a published table, and by one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.bench.cost_model.all_reduces import FORMULAS, KNL, all_reduce_named
from knltrain.cost_model.collectives import halving_and_doubling, tree
from knltrain.cost_model.line import Link
from knltrain.errors import ConfigError

LINK = Link(1e-6, 1e-9)


def test_formulas_are_known_by_name() -> None:
    assert list(FORMULAS) == ["ring", "recursive-doubling", "halving-and-doubling", "tree"]
    assert all_reduce_named("tree", LINK)(4e6, 8) == tree(LINK, 4e6, 8)
    found = all_reduce_named("halving-and-doubling", LINK)(4e6, 8)
    assert found == halving_and_doubling(LINK, 4e6, 8)


def test_the_table_of_xeon_phi_is_as_published() -> None:
    found = all_reduce_named(KNL, LINK)
    assert found(67e6, 8) == pytest.approx(8.7e-3)
    assert found(67e6, 1) == 0.0


def test_a_file_is_read_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("ranks,bytes,seconds\n2,100,1\n2,400,2\n4,100,2\n4,400,4\n")
    found = all_reduce_named(str(file), LINK)
    assert found(400, 4) == pytest.approx(4.0)
    assert found(200, 2) == pytest.approx(2**0.5)
    assert found(100, 8) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "times of 0 sizes"),
        ("bytes,ranks\n1,2\n", "seconds"),
        ("bytes,ranks,seconds\n100,2\n", "line 2: 100,2,: expected finite numbers above 0"),
        ("bytes,ranks,seconds\n1,2,1\n100,two,1\n", "line 3: 100,two,1: expected finite numbers"),
        ("bytes,ranks,seconds\n1,2,nan\n9,2,1\n", "line 2: 1,2,nan: expected finite numbers"),
        ("bytes,ranks,seconds\n1,2,1\n9,2,-3\n", "line 3: 9,2,-3: expected finite numbers above"),
        ("bytes,ranks,seconds\n1,2,1\n1,2,4\n", "line 3: 1,2,4: this pair has a time already, 1"),
        ("bytes,ranks,seconds\n1,2,1\n9,2,1\n1,4,1\n", "9 bytes, 4 ranks: no time"),
        ("bytes,ranks,seconds\n100,2,1\n", "1 sizes and 1 numbers of ranks"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "times.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"times.csv: expected a CSV file.*{what}"):
        all_reduce_named(str(file), LINK)


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'ring'.*or a CSV file of times"):
        all_reduce_named("rign", LINK)
