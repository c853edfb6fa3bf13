"""oneCCL by its C interface."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from knltrain.bench.exchange import oneccl

needs_oneccl = pytest.mark.skipif(oneccl.installed() is None, reason="oneCCL is not installed")


def test_a_package_that_is_not_there_is_none(monkeypatch):
    monkeypatch.setattr(oneccl, "PACKAGE", "no-such-package")
    assert oneccl.installed() is None


def test_a_package_without_the_library_is_none(monkeypatch):
    monkeypatch.setattr(oneccl, "PACKAGE", "numpy")
    assert oneccl.installed() is None


def test_a_library_is_found_in_the_files_of_its_package(monkeypatch):
    monkeypatch.setattr(oneccl, "PACKAGE", "numpy")
    monkeypatch.setattr(oneccl, "LIBRARY", "version.py")
    version, folder = oneccl.installed()
    assert version == importlib.metadata.version("numpy")
    assert (folder / "version.py").exists()


@needs_oneccl
def test_one_rank_alone_adds_up_its_own():
    code = (
        "import numpy as np; from knltrain.bench.exchange.oneccl import *\n"
        "one = Communicator(0, 1, unique_id()); vector = np.full(5, 3, np.float32)\n"
        "one.all_reduce(vector); assert np.all(vector == 3)\n"
        "try: Communicator(7, 1, unique_id())\n"
        "except RuntimeError as error: assert 'onecclCommInitRank failed' in str(error)\n"
        "else: raise SystemExit('a rank that does not exist was taken')"
    )
    folder = str(oneccl.installed()[1])
    environment = {**os.environ, **oneccl.ENVIRONMENT, "LD_LIBRARY_PATH": folder}
    environment["FI_PROVIDER_PATH"] = folder
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
