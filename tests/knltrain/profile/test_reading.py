from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from profiles.material import document

from knltrain.errors import RunFolderError
from knltrain.profile.reading import read_profile, whole


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written = document()
    (tmp_path / "profile.json").write_text(json.dumps(written))
    assert read_profile(tmp_path) == json.loads(json.dumps(written))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file: expected a run by `knltrain profile CONFIG`"),
        ("{", "cannot be read"),
        ("[]", "expected a document of schema 'knltrain.profile'"),
        ('{"schema": "another"}', "expected a document of schema"),
        ('{"schema": "knltrain.profile"}', "of version None: expected 1"),
        ('{"schema": "knltrain.profile", "version": [2, 0]}', r"of version \[2, 0\]: expected 1"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "profile.json").write_text(text)
    with pytest.raises(RunFolderError, match=said):
        read_profile(tmp_path)


@pytest.mark.parametrize("error", [KeyError("stages"), TypeError(), IndexError(), ValueError()])
def test_what_cannot_be_told_of_a_profile_says_that_it_is_damaged(
    tmp_path: Path, error: Exception
) -> None:
    with (
        pytest.raises(RunFolderError, match=r"profile.json: damaged .*; profile the run anew"),
        whole(tmp_path),
    ):
        raise error


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"stages": []}, "damaged .ValueError: stages and parts add up to .* expected those of a"),
        ({"stages": None}, "damaged .TypeError"),
        ({"parts": [{"name": "rest", "seconds": 1.0}]}, "damaged .ValueError: stages and parts"),
        ({"step_seconds": {"mean": 0.0}, "stages": [], "parts": []}, "damaged .ValueError"),
        ({"step_seconds": {"mean": float("nan")}}, "cannot be read .NaN: expected finite numbers"),
        ({"overhead": {"aa_noise_share": float("-inf")}}, "cannot be read .-Infinity: expected"),
    ],
)
def test_a_damaged_profile_is_refused(tmp_path: Path, broken: dict[str, Any], said: str) -> None:
    (tmp_path / "profile.json").write_text(json.dumps({**document(), **broken}))
    with pytest.raises(RunFolderError, match=f"profile.json: {said}"):
        read_profile(tmp_path)


def test_a_profile_without_stages_has_its_gradient_as_a_part(tmp_path: Path) -> None:
    """As that of a device."""
    parts = [{"name": "gradient", "seconds": 2.0}, {"name": "rest", "seconds": 1.0}]
    given = {**document(), "stages": [], "parts": parts, "step_seconds": {"mean": 3.0}}
    (tmp_path / "profile.json").write_text(json.dumps(given))
    assert read_profile(tmp_path)["parts"] == parts


@pytest.mark.parametrize("lost", ["stages", "parts", "step_seconds"])
def test_what_a_profile_lacks_is_named(tmp_path: Path, lost: str) -> None:
    given = document()
    del given[lost]
    (tmp_path / "profile.json").write_text(json.dumps(given))
    with pytest.raises(RunFolderError, match=f"damaged .KeyError: '{lost}'"):
        read_profile(tmp_path)
