"""A process group as a contestant; started as the benchmark starts it."""

import os
from contextlib import ExitStack

import pytest

from knltrain.bench.exchange.contestants import started
from knltrain.bench.exchange.crew import assembled
from knltrain.bench.exchange.torch_member import main

CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.slow
def test_two_ranks_find_each_other_and_reduce():
    with ExitStack() as stack:
        crew = assembled(stack, "gloo", started("gloo", [CPUS[:1], CPUS[-1:]]))
        assert crew.version.startswith("torch ")
        crew.hold("a", [100, 7])
        assert 0 < crew.seconds("a", "all_reduce", 3) < 10
        crew.drop("a")


def test_a_module_that_registers_the_backend_is_imported_first(tmp_path, monkeypatch):
    (tmp_path / "registers_a_backend.py").write_text("raise SystemExit('registered')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit, match="registered"):
        main(0, 1, "ours", "registers_a_backend")
