from __future__ import annotations

import re
from pathlib import Path

import pytest

import knltrain.torch_distributed
from knltrain.communication.collectives import Collectives


def test_all_that_process_groups_ask_for_by_name_is_there() -> None:
    folder = Path(knltrain.torch_distributed.__file__).parent
    asked = {
        name
        for path in folder.rglob("*.py")
        for name in re.findall(r'self\.submit\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert asked == Collectives.__abstractmethods__


def test_who_lacks_an_operation_is_no_group() -> None:
    class Lacking(Collectives):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Lacking()  # type: ignore[abstract]
