"""Which transport goes between computers, and whether it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knltrain.config import RunConfig, load_config
from knltrain.errors import ConfigError
from knltrain.launch.node_share import NodeShare
from knltrain.launch.plan import plan_run

Load = Callable[..., RunConfig]

PAIR = NodeShare(nodes=2)
UNPINNED = "placement.pin=false"


@pytest.fixture
def config_with(tmp_path: Path, run_toml: str) -> Load:
    path = tmp_path / "run.toml"
    path.write_text(run_toml)

    def load(*overrides: str) -> RunConfig:
        return load_config(path, overrides)

    return load


def test_way_between_nodes_is_chosen_and_written_down(
    config_with: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    for found, way in ((("2022.1", Path("/")), "ccl"), (None, "gloo")):
        monkeypatch.setattr(
            "knltrain.launch.way_between_nodes.installed", lambda found=found: found
        )
        chosen = plan_run(config_with(UNPINNED), PAIR).config.exchange.between_nodes
        assert chosen == way
    with pytest.raises(ConfigError, match=r"'ccl': oneCCL is not installed: pip install .*'gloo'"):
        plan_run(config_with(UNPINNED, "exchange.between_nodes=ccl"), PAIR)
    assert plan_run(config_with(UNPINNED)).config.exchange.between_nodes == "auto"


def test_workers_that_come_alone_do_so_by_mpi(config_with: Load) -> None:
    pytest.importorskip("mpi4py")
    for method in ("seasgd", "shmcaffe_h"):
        for asked in ("auto", "mpi"):
            more = (f"exchange.method={method}", f"exchange.between_nodes={asked}")
            chosen = config_with(UNPINNED, *more)
            assert plan_run(chosen, PAIR).config.exchange.between_nodes == "mpi"


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("mpi", r"'mpi', by which 'sync_easgd' goes .* no mpi4py; pip install 'knltrain\[mpi\]'"),
        ("gaspi", r"'gaspi', by which 'sync_easgd' goes .* no mpi4py; pip install"),
        ("oneccl_bindings", r"no oneccl_bindings_for_pytorch; it is archived: use 'ccl'"),
    ],
)
def test_way_between_nodes_that_is_not_there_is_refused(
    config_with: Load, monkeypatch: pytest.MonkeyPatch, way: str, says: str
) -> None:
    monkeypatch.setattr(
        "knltrain.launch.way_between_nodes.importlib.util.find_spec", lambda _: None
    )
    with pytest.raises(ConfigError, match=says):
        plan_run(config_with(UNPINNED, f"exchange.between_nodes={way}"), PAIR)
