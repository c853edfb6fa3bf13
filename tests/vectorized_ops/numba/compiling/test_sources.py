from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from vectorized_ops.numba.compiling.sources import digest_of_imports

FILES = {
    "__init__.py": "",
    "top.py": "import os, made_up.plain as short\nfrom made_up.rooms import inner as it\n",
    "plain.py": "import os\n",
    "late.py": "",
    "rooms/__init__.py": "VALUE = 1\n",
    "rooms/inner.py": "def load():\n    from made_up.late import anything\n"
    "    from made_up import (  # in lines\n        first,  # (and, why)\n        last,\n    )\n",
    "first.py": "",
    "last.py": "import sys; import made_up.rooms.far\n",
    "rooms/far.py": "",
    "unused.py": "",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "made_up"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    module = ModuleType("made_up")
    module.__file__ = str(folder / "__init__.py")
    monkeypatch.setitem(sys.modules, "made_up", module)
    return folder


def digest() -> str:
    digest_of_imports.cache_clear()
    return digest_of_imports("made_up.top")


@pytest.mark.parametrize("name", sorted(set(FILES) - {"unused.py", "__init__.py"}))
def test_every_module_that_is_imported_counts(package: Path, name: str) -> None:
    before = digest()
    (package / name).write_text(FILES[name] + "# changed\n")
    assert digest() != before
    (package / name).write_text(FILES[name])
    assert digest() == before


def test_others_do_not_count(package: Path) -> None:
    before = digest()
    (package / "unused.py").write_text("# changed\n")
    assert digest() == before


def test_it_stays_what_it_was_when_the_process_loaded_them(package: Path) -> None:
    before = digest()
    (package / "plain.py").write_text("# changed\n")
    assert digest_of_imports("made_up.top") == before
