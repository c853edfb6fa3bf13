from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

import pytest

from knltrain.communication.oneccl import installed, library
from knltrain.errors import CollectiveError

needs_oneccl = pytest.mark.skipif(installed() is None, reason="oneCCL is not installed")


def test_a_package_that_is_not_there_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "PACKAGE", "no-such-package")
    assert library.installed() is None
    with pytest.raises(CollectiveError, match=r"pip install 'knltrain\[oneccl\]'"):
        library.library.__wrapped__()


def test_a_package_without_the_library_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "PACKAGE", "numpy")
    assert library.installed() is None


def test_a_library_is_found_in_the_files_of_its_package_and_a_broken_one_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "PACKAGE", "numpy")
    monkeypatch.setattr(library, "LIBRARY", "version.py")
    found = library.installed()
    assert found is not None
    version, folder = found
    assert version == importlib.metadata.version("numpy")
    assert (folder / "version.py").exists()
    for name in library.ENVIRONMENT:  # what is set on the way is taken back
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("FI_PROVIDER_PATH", "")
    monkeypatch.setattr(library, "_NEEDED_FIRST", ("version.py",))
    with pytest.raises(CollectiveError, match=f"oneCCL {version} in {folder} cannot be loaded"):
        library.library.__wrapped__()


@pytest.mark.slow
@needs_oneccl
def test_process_with_a_call_that_never_returned_ends_as_it_wants_to() -> None:
    code = (
        "import sys, threading, time; from knltrain.communication.oneccl import *\n"
        "identity = unique_id()\n"
        "alone = threading.Thread(target=Communicator, args=(0, 2, identity), daemon=True)\n"
        "alone.start(); time.sleep(1)\n"
        "print('at the end'); sys.exit(7)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.endswith("at the end\n")
