"""A wrong description is refused with the key, the value and the way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Refusal = Callable[..., str]


def test_unknown_key_is_named_with_the_one_that_was_meant(refusal: Refusal) -> None:
    message = refusal("train.bacth=3")
    assert "run.toml: unknown key 'train.bacth'" in message
    assert message.endswith("did you mean 'train.batch'?")


def test_unknown_table_is_named_with_the_one_that_was_meant(refusal: Refusal) -> None:
    assert refusal("exchnage.method=none").endswith("did you mean 'exchange'?")


def test_key_outside_its_table_is_pointed_to_it(refusal: Refusal) -> None:
    assert refusal("keep=3").endswith("did you mean 'checkpoint.keep'?")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=one", "seed = 'one': expected to be a valid integer"),
        ("seed=-1", "seed = -1: expected to be greater than or equal to 0"),
        ("train.batch=0", "train.batch = 0: expected to be greater than or equal to 1"),
        ("train.batch=6.5", "train.batch = 6.5: expected to be a valid integer"),
        ("train.batch=true", "train.batch = True: expected to be a valid integer"),
        ("workers=0", "workers = 0: expected to be greater than or equal to 1 or to be 'auto'"),
        ("workers=many", "workers = 'many': expected to be a valid integer or to be 'auto'"),
        ("backend.threads=0", "backend.threads = 0: expected to be greater"),
        ("learning_rate.base=0", "learning_rate.base = 0: expected to be greater than 0"),
        ("learning_rate.base=nan", "learning_rate.base = nan: expected to be a finite number"),
        ("learning_rate.base=inf", "learning_rate.base = inf: expected to be a finite number"),
        ("learning_rate.policy=cosin", "learning_rate.policy = 'cosin': expected to be 'fixed', "),
        ("optimizer.momentum=1", "optimizer.momentum = 1: expected to be less than 1"),
        ("optimizer.momentum=nan", "optimizer.momentum = nan: expected to be"),
        ("optimizer.clip_norm=0", "optimizer.clip_norm = 0: expected to be greater than 0"),
        ("optimizer.clip_value=inf", "optimizer.clip_value = inf: expected to be a finite"),
        ("optimizer.weight_decay=-1", "optimizer.weight_decay = -1: expected to be greater"),
        ("optimizer.name=5", "optimizer.name = 5: expected to be a valid string"),
        ("optimizer.name=[1]", "optimizer.name = [1]: expected to be a valid string"),
        ("optimizer=5", "optimizer = 5: expected a table, [optimizer]"),
        ("exchange.moving_rate=0", "exchange.moving_rate = 0: expected to be greater than 0"),
        ("exchange.segment=file", "segment = 'file': expected to be 'shm', 'memfd' or"),
        ("exchange.timeout_seconds=0", "exchange.timeout_seconds = 0: expected to be greater"),
        (
            "placement.os_cpus=0",
            'in quotes: placement.os_cpus = "0", or --set \'placement.os_cpus=',
        ),
        ("placement.pin=1", "placement.pin = 1: expected to be a valid boolean"),
        ("name=../up", "name = '../up': expected to match pattern"),
        ("network.name=5", "network.name = 5: expected to be a valid string"),
        ("learning_rate.step_values=[1, x]", "not valid TOML"),
        ("learning_rate.step_values=[1, 0]", "learning_rate.step_values[1] = 0: expected to be"),
    ],
)
def test_wrong_value_is_named_with_what_was_expected(
    override: str, message: str, refusal: Refusal
) -> None:
    assert message in refusal(override)


def test_all_wrong_keys_are_reported_at_once(refusal: Refusal) -> None:
    lines = refusal("seed=-1", "train.batch=0", "colour=red").splitlines()
    assert len(lines) == 3
    assert all("run.toml: " in line for line in lines)


def test_missing_key_is_named_with_its_meaning(refusal: Refusal) -> None:
    message = refusal("train.batch=")
    assert "train.batch is missing: images per batch over all workers" in message


def test_missing_table_is_named(refusal: Refusal, smallest: str) -> None:
    assert "data is missing" in refusal(text=smallest.replace('[data]\nname = "digits"\n', ""))
