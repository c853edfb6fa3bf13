"""Reports what a machine is, what is installed there, and whether workers can train on it."""

from __future__ import annotations

from knltrain.doctor.diagnosis import Diagnosis, diagnose, format_text, to_json
from knltrain.doctor.exchange_trial import SelfTestResult, self_test
from knltrain.doctor.finding import Finding

__all__ = [
    "Diagnosis",
    "Finding",
    "SelfTestResult",
    "diagnose",
    "format_text",
    "self_test",
    "to_json",
]
