from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from affinity.errors import TopologyError
from knltrain.doctor import diagnosis
from knltrain.doctor.diagnosis import Diagnosis, format_text, self_test_finding, to_json
from knltrain.doctor.exchange_trial import SelfTestResult
from knltrain.doctor.finding import Finding, worst_level

_TESTED = SelfTestResult(True, 2, 1.25, "")
_SICK = Diagnosis(
    level="fail",
    findings=(
        Finding("cores", "ok", "2 physical cores"),
        Finding("huge pages", "warn", "off", "turn them on"),
        Finding("torch", "fail", "not installed", "install it"),
    ),
    allowed_cpus=(0, 1),
    topology=None,
    self_test=_TESTED,
)


@pytest.fixture(scope="module")
def real() -> Diagnosis:
    return diagnosis.diagnose()


def test_this_machine_is_described_whole(real: Diagnosis) -> None:
    assert real.allowed_cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert real.topology is not None
    assert real.self_test.ok
    assert real.level == worst_level(real.findings)
    subjects = [finding.subject for finding in real.findings]
    assert len(subjects) == len(set(subjects))
    assert {"processor", "shared memory /dev/shm", "huge pages", "numpy", "kernel cache"} <= set(
        subjects
    )
    assert subjects[-1] == "self-test"


def test_json_holds_the_whole_diagnosis(real: Diagnosis) -> None:
    told = json.loads(to_json(real))
    assert set(told) == {"level", "findings", "allowed_cpus", "topology", "self_test"}
    assert told["findings"][0] == {
        "subject": "processor",
        "level": "ok",
        "text": real.findings[0].text,
        "way_out": "",
    }
    assert real.topology is not None
    assert told["topology"]["cores"][0]["cpus"] == list(real.topology.cores[0].cpus)
    assert told["self_test"]["reason"] == ""


def test_unreadable_topology_fails_but_the_rest_is_still_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise TopologyError("no /sys and no /proc")

    monkeypatch.setattr(diagnosis, "read_topology", refuse)
    monkeypatch.setattr(diagnosis, "self_test", lambda: _TESTED)
    found = diagnosis.diagnose()
    assert (found.level, found.topology) == ("fail", None)
    assert (found.findings[0].subject, found.findings[0].text) == (
        "topology",
        "no /sys and no /proc",
    )
    assert "numpy" in {finding.subject for finding in found.findings}


def test_text_shows_levels_in_columns_ways_out_and_verdict() -> None:
    assert format_text(_SICK) == (
        "ok    cores       2 physical cores\n"
        "warn  huge pages  off\n"
        "                  -> turn them on\n"
        "fail  torch       not installed\n"
        "                  -> install it\n"
        "\n"
        "this machine is not ready: 1 failed, 1 warned"
    )
    healthy = replace(_SICK, level="warn", findings=_SICK.findings[:2])
    assert format_text(healthy).endswith("\nthis machine is ready: 0 failed, 1 warned")


def test_self_test_becomes_a_finding_of_its_own() -> None:
    assert self_test_finding(_TESTED).text == "2 pinned workers exchanged in 1.2 s"
    assert self_test_finding(replace(_TESTED, workers=1)).text.startswith("one worker ")
    cramped = self_test_finding(replace(_TESTED, no_room="/dev/shm is full"))
    assert (cramped.level, "a memfd only: /dev/shm is full" in cramped.text) == ("warn", True)
    assert 'exchange.segment = "memfd"' in cramped.way_out
    failed = self_test_finding(SelfTestResult(False, 2, 20.0, "worker 1 did not finish in time"))
    assert (failed.level, failed.text) == ("fail", "worker 1 did not finish in time")
    assert "--workers 1" in failed.way_out
