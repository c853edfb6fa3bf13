from __future__ import annotations

from affinity.cli.checking.finding import Finding, exit_status, show_findings

_OK = Finding("ok", "demotion", "off")
_NOTE = Finding("note", "hwloc", "not installed")
_WARN = Finding("warn", "OpenMP", "OMP_PROC_BIND=true", "unset it")
_FAIL = Finding("fail", "memory policies", "refused")


def test_findings_line_up_with_their_way_out() -> None:
    assert show_findings([_OK, _WARN, _FAIL]).splitlines() == [
        "ok    demotion         off",
        "WARN  OpenMP           OMP_PROC_BIND=true; unset it",
        "FAIL  memory policies  refused",
        "",
        "1 wrong, 1 to look at",
    ]


def test_verdict_counts_what_matters() -> None:
    assert show_findings([_OK, _NOTE]).endswith("\n\nall is well")
    assert show_findings([_OK, _WARN, _WARN]).endswith("\n\nnothing wrong, 2 to look at")


def test_only_failures_give_status_1() -> None:
    assert exit_status([_OK, _NOTE, _WARN]) == 0
    assert exit_status([_OK, _FAIL]) == 1
