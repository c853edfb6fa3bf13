"""[data]: what is refused, and what may be left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.config import RunConfig
from knltrain.errors import ConfigError


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
