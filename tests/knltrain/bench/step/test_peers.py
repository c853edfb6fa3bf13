"""Who takes part in a benchmark, and how each is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.bench.step.peers import (
    MEMORY_KEPT,
    OTHERS,
    OURS,
    PEERS,
    Start,
    device_starts,
    starts,
)
from knltrain.errors import ConfigError

SAYS = """
import json, os, sys
print(json.dumps({"ready": {"argv": sys.argv[1:], "kind": os.environ.get("KIND"),
                            "cpus": sorted(os.sched_getaffinity(0))}}), flush=True)
"""


@pytest.mark.parametrize("pinned", [True, False])
def test_start_gives_job_threads_and_options_and_pins_if_wanted(pinned):
    allowed = sorted(os.sched_getaffinity(0))
    start = Start(("-c", SAYS), ("more",), environment={"KIND": "odd"}, pinned=pinned)
    with start.process("saying", Path("/job"), allowed[:1]) as process:
        process.wait_ready()
    assert process.ready == {
        "argv": ["/job", "1", "more"],
        "kind": "odd",
        "cpus": allowed[:1] if pinned else allowed,
    }


def test_ours_comes_first_and_peers_in_the_order_given():
    assert list(starts(("unpinned", "torch-tuned", "torch"), None)) == [
        OURS,
        "unpinned",
        "torch-tuned",
        "torch",
    ]
    assert frozenset(PEERS) - OTHERS == {"torch-optimized", "unpinned", "cpu-float32"}
    assert "compiled" not in OTHERS


def test_peers_differ_from_eager_pytorch_by_what_their_names_say():
    eager, tuned, compiled, optimized, ipex = (
        PEERS[name] for name in ("torch", "torch-tuned", "torch-compile", "torch-optimized", "ipex")
    )
    assert eager.environment == optimized.environment == {}
    assert tuned.environment == compiled.environment == ipex.environment == MEMORY_KEPT
    assert eager.options == tuned.options == ("eager",)
    assert (compiled.options, ipex.options) == (("compile",), ("ipex",))
    assert optimized.options == ("optimized",)


def test_unknown_peer_is_refused():
    with pytest.raises(ConfigError, match=r"unknown peer 'torch-tune'.*mean 'torch-tuned'"):
        starts(("torch-tune",), None)


def test_on_the_host_all_are_told_in_what_precision():
    names = (
        "torch", "torch-tuned", "torch-compile", "torch-optimized", "ipex", "unpinned",
        "cpu-float32",
    )  # fmt: skip
    found = starts(names, None, "bfloat16")
    assert {name: each.options for name, each in found.items()} == {
        OURS: ("bfloat16",),
        "torch": ("eager", "cpu", "bfloat16"),
        "torch-tuned": ("eager", "cpu", "bfloat16"),
        "torch-compile": ("compile", "cpu", "bfloat16"),
        "torch-optimized": ("optimized", "cpu", "bfloat16"),
        "ipex": ("ipex", "cpu", "bfloat16"),
        "unpinned": ("bfloat16",),
        "cpu-float32": ("float32",),
    }
    assert found["cpu-float32"].pinned
    plain = starts(("torch-optimized", "unpinned"), None)
    assert [each.options for each in plain.values()] == [
        ("float32",),
        ("optimized", "cpu", "float32"),
        ("float32",),
    ]


def test_ours_in_float32_beside_itself_is_refused():
    words = "the peer 'cpu-float32' .* add --precision bfloat16, or leave it out"
    with pytest.raises(ConfigError, match=words):
        starts(("cpu-float32",), None)


def test_on_a_device_all_are_told_which_and_in_what_precision():
    found = device_starts(("torch-graph", "torch"), "cuda:0", "bfloat16")
    assert list(found) == ["cuda:0", "torch-graph", "torch"]
    assert [each.options for each in found.values()] == [
        ("eager", "cuda:0", "bfloat16"),
        ("graph", "cuda:0", "bfloat16"),
        ("eager", "cuda:0", "bfloat16"),
    ]
    assert {"torch", "torch-graph", "torch-compile"} <= OTHERS
    with pytest.raises(ConfigError, match=r"unknown peer on 'cuda' 'ipex'"):
        device_starts(("ipex",), "cuda", "float32")


def test_ipex_runs_under_the_python_named_or_found_or_this_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert starts(("ipex",), None)["ipex"].python == sys.executable
    found = Path(".venv-ipex/bin/python")
    found.parent.mkdir(parents=True)
    found.touch()
    assert starts(("ipex",), None)["ipex"].python == str(found)
    assert starts(("ipex",), Path("/other/python"))["ipex"].python == "/other/python"
    assert starts(("ipex", "torch"), Path("/other/python"))["torch"].python == sys.executable


def test_python_for_a_peer_that_takes_no_part_is_refused():
    with pytest.raises(ConfigError, match="--ipex-python is the Python of the peer 'ipex': add"):
        starts(("torch",), Path("/other/python"))


FAULTS = """
import resource
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * (256 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def test_memory_that_is_kept_is_not_faulted_in_again():
    def second_time(environment):
        command = [sys.executable, "-c", FAULTS]
        return int(subprocess.check_output(command, env={**os.environ, **environment}))

    assert 10 * second_time(MEMORY_KEPT) < second_time({})
