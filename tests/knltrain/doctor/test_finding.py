from __future__ import annotations

import pytest

from knltrain.doctor.finding import Finding, Level, worst_level


@pytest.mark.parametrize(
    ("levels", "worst"),
    [((), "ok"), (("ok", "ok"), "ok"), (("warn", "ok"), "warn"), (("warn", "fail", "ok"), "fail")],
)
def test_worst_level_is_the_gravest(levels: tuple[Level, ...], worst: Level) -> None:
    findings = [Finding("x", level, "y", "" if level == "ok" else "z") for level in levels]
    assert worst_level(findings) == worst


def test_only_trouble_has_a_way_out() -> None:
    for level, way_out in (("ok", "do this"), ("warn", ""), ("fail", "")):
        with pytest.raises(ValueError, match="way out"):
            Finding("x", level, "y", way_out)  # type: ignore[arg-type]
