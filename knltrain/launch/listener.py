"""Handles the events of a run's workers: shows them, and records the workers' places."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

from affinity import format_cpulist, placement_environment
from knltrain.data.source import Skipped
from knltrain.errors import RunFolderError
from knltrain.files.durable import reason_of, write_whole
from knltrain.launch.events import Event
from knltrain.launch.plan import RunPlan, asked_of
from knltrain.launch.progress import ProgressDisplay
from knltrain.launch.run_folder import PLACEMENT, write_placement


@final
class Listener:
    """What the parent knows of a run that is on; `progress` is the last such event."""

    def __init__(self, plan: RunPlan, run_folder: Path, display: ProgressDisplay) -> None:
        """Write `placement.json` with what each worker is to get."""
        self.progress: Event | None = None
        self.lacking: dict[tuple[int, str], str] = {}
        """What could not be written so far, by the worker's rank and the file's name."""
        self._plan = plan
        self._run_folder = run_folder
        self._display = display
        self._skipped = Skipped()
        self._places: list[dict[str, object]] = [
            {"rank": plan.rank_of(place), "asked": asked_of(plan.config, place), "got": None}
            for place in plan.placements
        ]
        self._first = plan.rank_of(plan.placements[0])
        self._pool: dict[str, object] | None = None
        if plan.pool is not None:
            cpus, threads = format_cpulist(plan.pool.cpus), plan.pool.threads
            self._pool = {"pinned": plan.config.placement.pin, "cpus": cpus, "threads": threads}
        self._write()

    def hear(self, rank: int, event: Event) -> None:
        """Handle one event of worker `rank`, of the kinds that do not end the run."""
        if event["event"] == "progress":
            self.progress = event
            self._display.progress(event)
        elif event["event"] == "compiling":
            self._display.compiling(event)
        elif event["event"] == "evaluation":
            self._display.evaluation(event)
        elif event["event"] == "placement":
            self._take_place(rank, event["got"])
        elif event["event"] == "unwritten":
            self._take_unwritten(rank, event["what"], event["lacks"])
        elif event["event"] == "skipped":
            self._skipped.add(event["pictures"])
        else:
            raise ValueError(f"worker {rank} sent an unknown event: {event}")

    def tell_skipped(self) -> None:
        """Count the broken pictures that were passed over, and name them in the run folder."""
        if not self._skipped:
            return
        path = self._run_folder / f"broken-pictures-{self._first}.txt"
        said = f"note: {self._skipped}"
        try:
            write_whole(path, "\n".join(sorted(self._skipped.reasons)) + "\n")
        except OSError as error:
            self._display.note(f"{said}; {path} cannot be written ({reason_of(error)})")
        else:
            self._display.note(f"{said}; all are named in {path}")

    def _take_place(self, rank: int, got: dict[str, Any]) -> None:
        self._places[rank - self._first]["got"] = got
        self._write()
        causes = ", ".join(f"{name}={value}" for name, value in placement_environment().items())
        way_out = f"; unset {causes}" if causes else ""
        for problem in got["problems"]:
            self._display.note(f"note: worker {rank}: {problem}; see placement.json{way_out}")
        for remark in got["remarks"] if rank == self._first else ():  # much the same for all
            self._display.note(f"note: worker {rank}: {remark}")

    def _take_unwritten(self, rank: int, what: str, lacks: str) -> None:
        before = self.lacking.pop((rank, what), "")
        if lacks:
            self.lacking[rank, what] = lacks
        if lacks and not before:
            self._display.note(f"warning: worker {rank}: {what}: {lacks}")
        elif before and not lacks:
            self._display.note(f"note: worker {rank}: {what}: it is written now")

    def _write(self) -> None:
        first = self._first
        try:
            write_placement(self._run_folder, self._places, first, self._pool)
        except RunFolderError as error:
            self._take_unwritten(first, PLACEMENT, str(error))
        else:
            self._take_unwritten(first, PLACEMENT, "")
