"""What a profile says of a network: a row for its step, and one for each kind of operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from knltrain.profile.kinds import by_kind

_EXPOSED: Final = ("waiting", "moving", "center_update")


def step_row(network: str, ground: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a step in seconds, its speed, and its intensities.

    `arithmetic_intensity` is of operations and compulsory bytes by definition;
    `communication_intensity` of operations of a node's workers and bytes that it sends, None where
    nothing is sent. `exposed_seconds` are of the exchange: what is hidden is not in them.
    """
    stages, parts = profile["stages"], {each["name"]: each["seconds"] for each in profile["parts"]}
    step, workers = profile["step_seconds"]["mean"], len(profile["ranks"])
    images = profile["batch_per_worker"] * profile["batches_per_step"] * workers
    flops = sum(each["flops"] for each in stages)
    moved = sum(each["compulsory_bytes"] for each in stages)
    sent = profile.get("exchange_bytes")
    of_node = flops * profile["workers_per_node"] * profile["communication_period"]
    machine = profile["machine"][0]
    return {
        "network": network,
        "ground": ground,
        "step_seconds": step,
        "images_per_second": images / step,
        "forward_seconds": _seconds(profile, "forward"),
        "backward_seconds": _seconds(profile, "backward"),
        "update_seconds": parts["update"],
        "exposed_seconds": sum(parts[name] for name in _EXPOSED) if workers > 1 else None,
        "hidden_share": profile["communication"]["hidden_share"],
        "arithmetic_intensity": flops / moved if moved else None,
        "communication_intensity": of_node / sent if sent else None,
        "sgemm_gflops": machine["sgemm_flops_per_second"] / 1e9,
        "copy_gbytes_per_second": machine["copy_bytes_per_second"] / 1e9,
        "failed_checks": [each["name"] for each in profile["checks"] if not each["passed"]],
    }


def kind_rows(network: str, ground: str, profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each kind, see `knltrain.profile.kinds`."""
    return [{"network": network, "ground": ground, **row} for row in by_kind(profile)]


def _seconds(profile: Mapping[str, Any], direction: str) -> float:
    own = (each for each in profile["stages"] if each["direction"].startswith(direction))
    return float(sum(each["seconds"]["mean"] for each in own))
