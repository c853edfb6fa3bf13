"""PyTorch as a contestant, in a process that knows nothing of knltrain."""

import io
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from torch._inductor import cpp_builder

from knltrain.bench.step import torch_peer
from knltrain.bench.step.job import write_job
from knltrain.network.layers import Addition, BatchNormalisation, Convolution, Dense
from knltrain.network.network import Network
from knltrain.network.zoo.cifar_quick import cifar_quick
from knltrain.network.zoo.lenet import lenet

COMPILES = shutil.which("g++") and Path(sysconfig.get_path("include"), "Python.h").exists()
NO_COMPILER = "no g++ or no Python.h: scripts/system-packages installs them"


def small_residual() -> Network:
    """A network that is not a chain, and keeps running statistics."""
    layers = (
        Convolution("conv", 2, 3, padding=1),
        BatchNormalisation("norm"),
        Addition("sum", ("norm", "conv")),
        Dense("out", 3),
    )
    return Network("residual", (5, 5, 1), layers)


def run(folder, network, *way, python=sys.executable, environment=None, options=("-E",)):
    """What the peer says when it is asked for one short round."""
    write_job(folder, network, batch=4, seed=1)
    # -E: PYTHONPATH is not heeded, the folder of the script is.
    return subprocess.run(
        [python, *options, torch_peer.__file__, str(folder), "1", *way],
        input="0.01\n",
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )


def first_loss(done):
    assert done.returncode == 0, done.stderr
    ready, answer = (json.loads(line) for line in done.stdout.splitlines())
    assert answer["steps"] >= 1
    return ready["ready"]["loss"], ready["ready"]["version"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [lenet, cifar_quick, small_residual],
)
def test_runs_without_knltrain_on_the_path(tmp_path, build):
    loss, version = first_loss(run(tmp_path, build()))
    assert 0 < loss < 20
    assert version.startswith("torch 2.")
    for name in ("torch_peer.py", "torch_graph.py", "protocol.py"):
        text = Path(torch_peer.__file__).with_name(name).read_text()
        assert not re.search(r"^\s*(import|from) knltrain", text, re.MULTILINE)


@pytest.mark.slow
def test_optimized_model_has_the_loss_of_the_plain_one(tmp_path):
    plain, _ = first_loss(run(tmp_path, small_residual()))
    optimized, version = first_loss(run(tmp_path, small_residual(), "optimized", options=()))
    assert optimized == pytest.approx(plain, rel=1e-5)
    assert version.endswith(" optimized")


@pytest.mark.slow
def test_compiling_without_a_compiler_is_refused_with_the_way_out(tmp_path):
    done = run(tmp_path, lenet(), "compile", environment={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "needs a C++ compiler and Python's headers, but there is no g++: install" in done.stderr


def test_compiling_without_pythons_headers_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", lambda: "g++")
    monkeypatch.setattr(torch_peer.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(
        SystemExit, match=r"there is no .*/Python\.h: install g\+\+ and python3-dev"
    ):
        torch_peer.compiled(torch.nn.ReLU())


@pytest.mark.slow
def test_compiled_network_has_the_first_loss_of_the_eager_one(tmp_path):
    if not COMPILES:
        pytest.skip(NO_COMPILER)
    (expected, _), (loss, version) = (
        first_loss(run(tmp_path, small_residual(), way)) for way in ("eager", "compile")
    )
    assert loss == pytest.approx(expected, rel=1e-5)
    assert version.endswith(" compiled")


@pytest.mark.parametrize(
    "found", [{"torch": "2.13.0"}, {"torch": "2.9.0", torch_peer.IPEX: "2.8.0"}]
)
def test_missing_or_unfit_ipex_is_refused_with_what_is_there_and_the_way_out(monkeypatch, found):
    monkeypatch.setattr(torch_peer, "_version", found.get)
    with pytest.raises(SystemExit) as refused:
        torch_peer.ipex(torch.nn.ReLU())
    message = str(refused.value)
    assert f"{sys.executable} has torch {found['torch']}, {torch_peer.IPEX} " in message
    assert "scripts/setup --ipex" in message
    assert "--ipex-python" in message


@pytest.mark.ipex
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 3e-2)])
@pytest.mark.parametrize("build", [lenet, cifar_quick, small_residual])
def test_network_under_ipex_has_the_first_loss_of_the_eager_one(
    tmp_path, build, precision, tolerance
):
    (expected, _), (loss, version) = (
        first_loss(run(tmp_path, build(), way, "cpu", precision)) for way in ("eager", "ipex")
    )
    assert loss == pytest.approx(expected, rel=tolerance)
    assert version.startswith("IPEX 2.8.")


@pytest.mark.parametrize(
    ("precision", "expected"), [("float32", ()), ("bfloat16", (torch.bfloat16,))]
)
def test_ipex_lays_out_weights_in_the_precision(tmp_path, monkeypatch, precision, expected):
    seen = []

    def ipex(network, *kind):
        seen.append(kind)
        return torch_peer.eager(network)

    write_job(tmp_path, lenet(), batch=4, seed=1)
    monkeypatch.setitem(torch_peer.WAYS, "ipex", ipex)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    torch_peer.main(tmp_path, 1, "ipex", "cpu", precision)
    assert seen == [expected]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["eager", "compile"])
def test_precision_rounds_products(tmp_path, way):
    if way == "compile" and not COMPILES:
        pytest.skip(NO_COMPILER)
    plain, _ = first_loss(run(tmp_path, cifar_quick()))
    rounded, _ = first_loss(run(tmp_path, cifar_quick(), way, "cpu", "bfloat16"))
    assert rounded != plain
    assert rounded == pytest.approx(plain, rel=3e-2)


@pytest.mark.slow
def test_graphs_are_of_gpus(tmp_path):
    done = run(tmp_path, lenet(), "graph")
    assert done.returncode == 1
    assert done.stderr == "the peer 'torch-graph' needs an NVIDIA GPU, the device is 'cpu'\n"
