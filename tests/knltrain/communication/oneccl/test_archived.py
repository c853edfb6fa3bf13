from __future__ import annotations

import sys
from pathlib import Path

import pytest

from knltrain.communication.oneccl.archived import MODULE, load_archived_bindings
from knltrain.errors import ConfigError


def test_bindings_that_are_not_there_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"oneccl_bindings_for_pytorch cannot .* expected 'ccl'"):
        load_archived_bindings()


def test_bindings_that_do_not_fit_are_refused_with_their_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{MODULE}.py").write_text("raise OSError('undefined symbol: of torch')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ConfigError, match="undefined symbol: of torch"):
        load_archived_bindings()
