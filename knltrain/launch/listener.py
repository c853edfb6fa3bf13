"""Hears what the workers of a run say: shows it, and keeps the record of their places."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

from affinity import placement_environment
from knltrain.launch.events import Event
from knltrain.launch.plan import RunPlan, asked_of
from knltrain.launch.progress import ProgressDisplay
from knltrain.launch.run_folder import write_placement


@final
class Listener:
    """What is known of a run from outside while it is on; `progress` is the last such event."""

    def __init__(self, plan: RunPlan, run_folder: Path, display: ProgressDisplay) -> None:
        """Write `placement.json` with what each worker is to get."""
        self.progress: Event | None = None
        self._plan = plan
        self._run_folder = run_folder
        self._display = display
        self._places: list[dict[str, object]] = [
            {"rank": plan.rank_of(place), "asked": asked_of(plan.config, place), "got": None}
            for place in plan.placements
        ]
        self._first = plan.rank_of(plan.placements[0])
        self._write()

    def hear(self, rank: int, event: Event) -> None:
        """Take in one event of worker `rank`: progress, evaluation or placement."""
        if event["event"] == "progress":
            self.progress = event
            self._display.progress(event)
        elif event["event"] == "evaluation":
            self._display.evaluation(event)
        elif event["event"] == "placement":
            self._take_place(rank, event["got"])
        else:
            raise ValueError(f"worker {rank} sent an unknown event: {event}")

    def _take_place(self, rank: int, got: dict[str, Any]) -> None:
        self._places[rank - self._first]["got"] = got
        self._write()
        causes = ", ".join(f"{name}={value}" for name, value in placement_environment().items())
        way_out = f"; unset {causes}" if causes else ""
        for problem in got["problems"]:
            self._display.note(f"note: worker {rank}: {problem}; see placement.json{way_out}")
        for remark in got["remarks"] if rank == self._first else ():  # much the same for all
            self._display.note(f"note: worker {rank}: {remark}")

    def _write(self) -> None:
        write_placement(self._run_folder, self._places, self._first)
