"""The keys of [backend] for devices and of [balance], alone and with the number of workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.config import RunConfig, to_toml, with_workers
from knltrain.config.backend_tables import BackendConfig
from knltrain.errors import ConfigError

Load = Callable[..., RunConfig]
Refusal = Callable[..., str]


def test_shares_are_equal_unless_told_otherwise(load: Load) -> None:
    balance = load().balance
    assert (balance.shares, balance.granule, balance.refit_steps) == ("equal", 16, 50)
    assert balance.is_equal
    assert not balance.may_change


@pytest.mark.parametrize(
    ("override", "may_change"),
    [
        ("balance.shares=[48,16]", False),
        ('balance.shares="fitted"', True),
        ('balance.replay="runs/other/shares.csv"', True),
    ],
)
def test_unequal_shares_need_not_divide_a_batch(
    load: Load, override: str, may_change: bool
) -> None:
    config = load("workers=2", "train.batch=64", override)
    assert not config.balance.is_equal
    assert config.balance.may_change == may_change
    assert load(text=to_toml(config)) == config
    if may_change:
        assert with_workers(config, 3).workers == 3


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["balance.shares=[48,17]"], "these are 2 and add up to 65"),
        (["balance.shares=[64]"], "these are 1 and add up to 64"),
        (["balance.shares=[0,64]"], "expected images for rank 0"),
        (["balance.shares=[65,-1]"], "balance.shares[1] = -1: expected to be greater than"),
        (["balance.shares=[]"], "balance.shares = []: expected"),
        (["balance.shares=some"], "balance.shares = 'some': expected to be 'equal' or 'fitted'"),
        (["balance.granule=0"], "balance.granule = 0"),
        (
            ["balance.emulated_images_per_second=[4]"],
            "a speed for each worker, 2 in all; these are 1",
        ),
        (["balance.emulated_images_per_second=[4,0]"], "to be greater than 0"),
        (
            ['balance.shares="fitted"', 'balance.replay="shares.csv"'],
            "replay = 'shares.csv' and shares = 'fitted': expected one of them",
        ),
        (["train.batch=63"], "such as 62, or balance.shares = 'fitted'"),
    ],
)
def test_what_does_not_fit_is_refused(refusal: Refusal, overrides: list[str], told: str) -> None:
    assert told in refusal("workers=2", *overrides)


def test_shares_are_compared_with_workers_once_these_are_known(load: Load) -> None:
    config = load("balance.shares=[48,16]")
    assert with_workers(config, 2).balance.shares == (48, 16)
    with pytest.raises(ConfigError, match="a number of images for each worker, 4 in all"):
        with_workers(config, 4)


def test_shares_may_be_those_of_computers_that_are_not_counted_yet(load: Load) -> None:
    config = load("workers=1", "balance.shares=[48,16]")
    assert with_workers(config, 1, nodes=2).total_workers == 2
    with pytest.raises(ConfigError, match=r"1 in all.*these are 2"):
        with_workers(config, 1)


@pytest.mark.parametrize("device", ["cpu", "auto", "cuda", "cuda:3", "xpu", "xpu:0"])
def test_devices_are_named_as_pytorch_names_them(load: Load, device: str) -> None:
    assert load("backend.name=torch", f"backend.device={device}").backend.device == device


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["backend.device=gpu"], "backend.device = 'gpu': expected to match pattern"),
        (
            ["backend.device=cuda"],
            "device = 'cuda' is of backend 'torch' with engine 'eager' or 'compile'",
        ),
        (
            ["backend.layout=channels_last", "backend.precision=bfloat16"],
            "layout = 'channels_last' with precision = 'bfloat16': expected 'float32' or 'auto'",
        ),
        (
            ["backend.layout=images_last", "backend.implementation=onednn"],
            "layout = 'images_last' with name = 'cpu', implementation = 'onednn': expected 'cpu'",
        ),
        (
            ["backend.layout=channels_last", 'backend.algorithms={"*"="strassen"}'],
            "layout = 'channels_last' with algorithms 'strassen': expected 'direct'",
        ),
        (
            ["backend.implementation=onednn", "backend.precision=bfloat16"],
            "precision = 'bfloat16' with name = 'cpu', implementation = 'onednn'",
        ),
        (
            ["backend.name=torch", "backend.engine=ipex", "backend.precision=bfloat16"],
            "expected 'cpu' with 'numba', or 'torch' with 'eager' or 'compile'",
        ),
        (
            ["backend.name=torch", "backend.precision=auto"],
            "precision = 'auto' is of backend 'cpu'",
        ),
        (
            ["backend.implementation=reference", "backend.emulate_bfloat16=true"],
            "emulate_bfloat16 = true with name = 'cpu', implementation = 'reference'",
        ),
        (
            ["backend.precision=auto", "backend.emulate_bfloat16=true"],
            "expected 'cpu', 'numba' and",
        ),
        (
            ['backend.algorithms={"*"="amx"}'],
            "'amx', which multiplies bfloat16, and precision = 'float32': expected precision",
        ),
        (
            ['backend.algorithms={"conv1"="direct", "*"={forward="amx"}}'],
            "expected precision = 'bfloat16', or other algorithms",
        ),
        (["backend.precision=half"], "'auto', 'float32', 'tf32' or 'bfloat16'"),
        (["backend.precision=tf32"], "'tf32' is of NVIDIA GPUs"),
        (["backend.name=torch", "backend.precision=tf32"], "'tf32' is of NVIDIA GPUs"),
        (
            ["backend.name=torch", "backend.engine=ipex", "backend.device=cuda"],
            "not of 'torch' with 'ipex'",
        ),
        (['backend.workers=[{name="torch"}]'], "expected ranks, such as '0-3', or hosts"),
        (
            ['backend.workers=[{ranks="0", device="cuda"}]'],
            "workers[0]: device = 'cuda' is of backend 'torch'",
        ),
        (['backend.workers=[{ranks="3-1", name="torch"}]'], "ranks = '3-1'"),
        (
            ['backend.workers=[{ranks="0", nmae="torch"}]'],
            "unknown key 'backend.workers[0].nmae'",
        ),
        (['backend.workers=[{ranks="a", name="torch"}]'], "backend.workers[0].ranks = 'a'"),
    ],
)
def test_backends_that_are_not_possible_are_refused(
    refusal: Refusal, overrides: list[str], told: str
) -> None:
    assert told in refusal(*overrides)


def test_workers_with_another_implementation_have_a_precision_of_their_own(load: Load) -> None:
    workers = (
        'backend.workers=[{ranks="0", implementation="reference"},'
        ' {ranks="1", precision="float32"}]'
    )
    rounded = ("backend.precision=bfloat16", "backend.emulate_bfloat16=true")
    config = load("workers=3", "train.batch=48", workers, *rounded)
    assert [config.backend.of(some).precision for some in (*config.backend.workers, None)] == [
        "float32", "float32", "bfloat16",
    ]  # fmt: skip
    assert not config.backend.keeps_bfloat16
    assert load(*rounded).backend.keeps_bfloat16
    emulated = 'backend.workers=[{ranks="0", precision="bfloat16", emulate_bfloat16=true}]'
    (some,) = load(emulated).backend.workers
    assert load(emulated).backend.of(some).emulate_bfloat16


def test_some_workers_have_another_backend(load: Load) -> None:
    config = load('backend.workers=[{ranks="0", name="torch", precision="bfloat16"}]')
    assert load(text=to_toml(config)) == config
    (some,) = config.backend.workers
    assert config.backend.of(some).precision == "bfloat16"
    assert config.backend.of(None).name == "cpu"


def test_channels_in_the_lanes_are_float32_by_themselves() -> None:
    chosen = BackendConfig(layout="channels_last", precision="auto")
    assert (chosen.fitting_precision, chosen.precision) == ("float32", "auto")
    assert BackendConfig(precision="auto").fitting_precision == "auto"
