"""[data]: what is refused, and what may be left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from knltrain.config import RunConfig
from knltrain.config.data_table import DataConfig
from knltrain.errors import ConfigError


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


def test_numbers_of_channels_are_one_several_or_known(load: Callable[..., RunConfig]) -> None:
    for text, expected in (
        ("33.5", 33.5),
        ("33", 33.0),
        ("[104, 117.0, 123.0]", (104.0, 117.0, 123.0)),
        ("imagenet", "imagenet"),
    ):
        assert load(f"data.mean={text}").data.mean == expected
        assert load(f"data.deviation={text}").data.deviation == expected


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.deviation=0"], r"data\.deviation"),
        (["data.mixup=0.01"], r"0\.01: expected 0\.05 to 1, or 0 for none"),
        (["data.cutmix=1.5"], r"1\.5: expected 0\.05 to 1, or 0 for none"),
        (["data.jitter=2"], r"data\.jitter"),
        (["data.recipe=cafe"], r"data\.recipe"),
        (["data.recipe=vgg", "data.shift_pixels=2"], r"shift_pixels = 2: recipe 'vgg' chooses"),
        (["data.operations=17"], r"data\.operations"),
        (["data.magnitude=31"], r"data\.magnitude"),
        (["data.magnitude=20"], r"magnitude = 20 with no operations: expected recipe"),
        (["data.order=random"], r"data\.order"),
        (["data.block_images=5"], r"block_images = 5 with order = 'shuffle', which has no blocks"),
        (
            ["data.side_pixels=70000"],
            r"side_pixels = 70,000: an image would have 4,900,000,000 pix",
        ),
        (["data.order=blocks", "data.mixup=0.2"], r"order = 'blocks' with mixup or cutmix"),
        (["data.network_order=gbr"], r"data\.network_order"),
        (["evaluation.crops=5"], r"evaluation\.crops"),
        (
            ["evaluation.crops=10", "loss.kind=mean_squared_error"],
            r"evaluation\.crops = 10 averages softmax, which loss\.kind = 'mean_squared_error'",
        ),
        (["data.mean=3", "data.mean_file=m.npy"], r"mean = 3\.0 and mean_file = 'm\.npy'"),
    ],
)
def test_impossible_values_are_refused(
    load: Callable[..., RunConfig], overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(*overrides)


def test_mixing_is_off_unless_asked_for(load: Callable[..., RunConfig]) -> None:
    assert (load().data.mixup, load().data.cutmix, load().data.recipe) == (0, 0, "none")
    assert load("data.mixup=0.2", "data.cutmix=1").data.cutmix == 1
