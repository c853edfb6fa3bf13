from __future__ import annotations

import pytest
from pydantic import ValidationError

from knltrain.config.data_table import DataConfig


def test_one_file_need_not_be_a_list() -> None:
    assert DataConfig(name="idx", train="a*").train == ("a*",)
    assert DataConfig(name="idx", test=["a", "b"]).test == ("a", "b")
    assert DataConfig(name="idx").train == ()


def test_the_size_of_random_pictures_is_a_list_in_toml() -> None:
    assert DataConfig(name="random", image=[8, 9, 3]).image == (8, 9, 3)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"test": "a", "test_share": 0.1}, "expected one of them"),
        ({"test_share": 1.0}, "less than 1"),
        ({"first_label": -1}, "greater than or equal to 0"),
        ({"channel_order": "rbg"}, "'rgb' or 'bgr'"),
        ({"channels": 2}, "1 or 3"),
        ({"image": [8, 9]}, "Field required"),
        ({"image": [8, 9, 4]}, "1 or 3"),
        ({"train": [""]}, "at least 1 character"),
        ({"train": 5}, "tuple"),
        ({"classes": 1}, "greater than or equal to 2"),
    ],
)
def test_other_values_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig(name="idx", **keys)
