"""What the tables of a run must agree on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.config import RunConfig, with_workers
from knltrain.errors import ConfigError

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


@pytest.mark.parametrize(("batch", "fitting"), [(65, 63), (2, 3)])
def test_batch_that_workers_cannot_share_is_refused(
    batch: int, fitting: int, refusal: Refusal
) -> None:
    message = refusal("workers=3", f"train.batch={batch}")
    assert f"train.batch = {batch} images do not divide evenly among 3 workers" in message
    assert message.endswith(f"such as {fitting}")


def test_moving_rate_that_overshoots_with_the_workers_is_refused(
    load: Load, refusal: Refusal
) -> None:
    assert load("workers=4", "exchange.moving_rate=0.25").exchange.moving_rate == 0.25
    message = refusal("workers=4", "exchange.moving_rate=0.26")
    assert "expected at most 1 / workers = 0.25" in message
    assert "0.9 / workers = 0.225" in message


def test_workers_decided_later_are_checked_like_given_ones(load: Load) -> None:
    config = load("exchange.moving_rate=0.5")
    assert with_workers(config, 2).workers == 2
    with pytest.raises(ConfigError, match="64 images do not divide evenly among 3 workers"):
        with_workers(config, 3)
    with pytest.raises(ConfigError, match=r"exchange\.moving_rate = 0\.5 with 4 workers"):
        with_workers(config, 4)
