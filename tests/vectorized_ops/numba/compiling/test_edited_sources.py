"""Who edits a source has the kernels compiled anew that are made from it, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vectorized_ops

PACKAGE = Path(vectorized_ops.__file__).parent

PROGRAM = """
import numpy as np
from vectorized_ops.numba.rectifier import relu_forward
from vectorized_ops.numba.addition import add
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.compiling.journal import JOURNAL
values, sums = activations((16, 4)), activations((16, 4))
values[...] = 1
relu_forward(values, values)
add(values, values, sums)
print(float(values.max()), float(sums.max()))
print(*sorted(one.name for one in JOURNAL.made if one.compiled))
"""


class Copy:
    """A copy of the package, and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.package = folder, folder / "vectorized_ops"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(self, name: str, before: str, after: str) -> None:
        file = self.package / "numba" / name
        text = file.read_text(encoding="utf-8")
        assert before in text
        file.write_text(text.replace(before, after), encoding="utf-8")

    def run(self) -> tuple[str, list[str]]:
        """What two operations computed, and the kernels that were compiled for it."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._folder),
            "NUMBA_CACHE_DIR": str(self._folder / "kernels"),
            "PYTHONDONTWRITEBYTECODE": "1",  # an edit within a second of the last may be overlooked
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        computed, compiled = done.stdout.splitlines()
        return computed, compiled.split()


@pytest.mark.slow
def test_an_edit_compiles_what_is_made_from_it_and_nothing_else(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    computed, first = copy.run()
    assert computed == "1.0 2.0"
    assert set(first) == {"_forward", "_add"}
    assert copy.run() == (computed, [])

    copy.edit("rectifier.py", '"""Write the outputs; `out` may', '"""Write outputs; `out` may')
    copy.edit("addition.py", "\n\n\n@parallel_kernel", "\n\n\n# Of both.\n@parallel_kernel")
    copy.edit("lrn.py", "from __future__", "UNUSED = 1\nfrom __future__")
    assert copy.run() == (computed, [])

    copy.edit("addition.py", "number * left_distance + place, right,", "place, right,")
    assert copy.run() == (computed, ["_add"])

    copy.edit("emit/lanes.py", "def divide(self", "def quotient_of_lanes(self")
    assert copy.run() == (computed, [])

    copy.edit("emit/lanes.py", "return self._builder.fadd(left", "return self._builder.fsub(left")
    computed, compiled = copy.run()
    assert computed == "1.0 0.0"
    assert "_add" in compiled
