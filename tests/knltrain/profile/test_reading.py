from __future__ import annotations

import json
from pathlib import Path

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
