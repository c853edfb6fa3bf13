"""A whole run: plan, folder, workers, progress, and one clear end."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from affinity import PlacementError, TooManyWorkers
from knltrain.assembly import (
    build_network,
    check_classes,
    check_resumable,
    check_weights,
    strategy_of,
)
from knltrain.cluster.task import Task, this_task
from knltrain.cluster.worker import MeetingPoint
from knltrain.config import RunConfig
from knltrain.errors import ConfigError, SegmentError
from knltrain.exchange.transports.board import RequestBoard
from knltrain.launch.failure import Failure
from knltrain.launch.listener import Listener
from knltrain.launch.module_import import module_import
from knltrain.launch.node_input import NodeInput
from knltrain.launch.node_share import NodeShare, expected_node_share
from knltrain.launch.orders import Orders, start_pool, start_worker
from knltrain.launch.plan import RunPlan, plan_run
from knltrain.launch.preemption import Preemption
from knltrain.launch.progress import Follow, PlainDisplay, ProgressDisplay, display_on
from knltrain.launch.rounds import Rounds
from knltrain.launch.run_end import error_of, worker_failed
from knltrain.launch.run_folder import (
    create_run_folder,
    forget_places,
    held,
    network_name,
    read_config,
    read_preprocessing,
    write_config,
    write_network,
    write_part,
    write_preprocessing,
)
from knltrain.launch.shared_memory import Shared, shared_by_workers
from knltrain.launch.signals import ENDING, SignalPipe, check_main_thread, signals_raise
from knltrain.launch.supervisor import Supervisor

if TYPE_CHECKING:
    from knltrain.assembly.initial_parameters import InitialParameters
    from knltrain.data.contents import DataContents
    from knltrain.launch.job_peers import JobPeers

CHANGEABLE: Final = (
    "train.epochs",
    "train.steps",
    "nodes",
    "workers",
    "placement.pin",
    "placement.data_cores",
    "placement.gpus",
    "backend.device",
    "backend.precision",
    "backend.emulate_bfloat16",
    "backend.algorithms",
    "balance.*",
    "data.name",
    "data.root",
    "data.batches_ahead",
    "data.memory",
    "checkpoint.every_minutes",
    "exchange.timeout_seconds",
    "preemption.*",
)
"""Keys that may change when a run is resumed.

The data must be the same; only their name and place may change. So must the number of all workers,
`nodes` times `workers`: a run may go on with fewer computers, or more.
"""

_LOOPBACK: Final = "127.0.0.1"

LEAST_DRAWN: Final = 2**20
"""Initial parameters that a parent draws for its workers; fewer are drawn at once by each."""


def train(config: RunConfig, kept_fds: Sequence[int] = (), *, follow: Follow | None = None) -> Path:
    """Carry out a new run; returns its folder. Workers keep the descriptors `kept_fds` open.

    With `follow` nothing is printed. Instead `follow` is called with each event of the run: a
    dictionary whose `event` is "progress", "evaluation", "compiling" or "note". It is called in
    this thread, which must be the main one; an exception in it ends the run.

    As one of several tasks of a launcher this starts a part of the workers only. Raises what
    `plan_run` raises, SegmentError and RunFolderError before anything is started; WorkerFailed,
    RunAborted or RunStopped after every worker has ended.
    """
    check_main_thread()
    task = this_task()
    leads = task is None or task.rank == 0
    display = display_on(sys.stdout, leads, follow)
    said = display.note if leads else _unsaid
    with module_import(config, said) as found, ExitStack() as checking:
        share = expected_node_share(task)
        data = checking.enter_context(NodeInput(share, found.config.data.memory == "distributed"))
        plan = plan_run(found.config, share, data.keep)
        plan = plan.noting((*found.notes, *check_weights(found.config)))
        with (
            ExitStack() as heeding,
            _at_its_node_share(plan, task) as (part, job_peers),
            ExitStack() as holding,
        ):
            memory = holding.enter_context(shared_by_workers(part, job_peers, data))
            folder = None
            if part.node_share.leads:
                folder = create_run_folder(Path(part.config.runs_folder), part.config.name)
                holding.enter_context(held(folder))
                write_network(folder, build_network(part.config))
                write_preprocessing(folder, part.preprocessing)
                write_config(folder, found.kept_in(folder, part.config))
            folder = _carry_out(
                part, folder, job_peers, memory, kept_fds, heeding, display, resume=False
            )
            with signals_raise(ENDING):
                data.await_others()
            return folder


def resume(
    run_folder: str | Path,
    overrides: Sequence[str] = (),
    accepts_other_data: bool = False,
    *,
    follow: Follow | None = None,
) -> Path:
    """Go on with a run from its newest whole checkpoint; only `CHANGEABLE` keys may be overridden.

    Damaged checkpoints are set aside. The data must be those that the run has learned from, unless
    other data are accepted. `follow` is that of `train`.

    Raises ConfigError, CheckpointError or RunFolderError before anything is started or written,
    and what `train` raises.
    """
    run_folder = Path(run_folder)
    for override in overrides:
        key = override.partition("=")[0].strip()
        if not any(fnmatchcase(key, each) for each in CHANGEABLE):
            raise ConfigError(
                f"--set {override}: a resumed run keeps its configuration, only "
                f"{', '.join(CHANGEABLE)} may change: start a new run for the rest"
            )
    check_main_thread()
    config = read_config(run_folder, tuple(overrides))
    task = this_task()
    share = expected_node_share(task)
    with (
        NodeInput(share, config.data.memory == "distributed") as data,
        ExitStack() as heeding,
        _at_its_node_share(_resumed_plan(config, share, data), task) as (part, job_peers),
        ExitStack() as holding,
    ):
        if part.node_share.leads:
            holding.enter_context(held(run_folder))
        memory = holding.enter_context(shared_by_workers(part, job_peers, data))
        display = display_on(sys.stdout, part.node_share.leads, follow)
        if part.node_share.leads:
            steps, contents = part.total_steps, part.data
            kept = read_preprocessing(run_folder)
            classes = check_classes(kept, part.preprocessing, accepts_other_data)
            before = read_config(run_folder)
            found = check_resumable(
                part.config, run_folder, steps, contents, accepts_other_data, before.total_nodes
            )
            found += [*classes, *_other_precision(before, part.config)]
            for note in found:  # at once: what has been set aside is so whatever comes next
                (display if follow else PlainDisplay(sys.stdout)).note(f"note: {note}")
            if kept is None:  # of a run of an older version
                write_preprocessing(run_folder, part.preprocessing)
            write_config(run_folder, part.config)
            forget_places(run_folder)
        folder = run_folder if part.node_share.leads else None
        folder = _carry_out(part, folder, job_peers, memory, (), heeding, display, resume=True)
        with signals_raise(ENDING):
            data.await_others()
        return folder


def _other_precision(before: RunConfig, now: RunConfig) -> list[str]:
    was, now_is = before.backend.precision, now.backend.precision
    if was == now_is:
        return []
    return [
        f"backend.precision: the run began with '{was}' and goes on with '{now_is}'; its model and "
        "state are float32 in any"
    ]


def _resumed_plan(config: RunConfig, share: NodeShare, data: NodeInput) -> RunPlan:
    try:
        return plan_run(config, share, data.keep)
    except TooManyWorkers as error:
        raise PlacementError(
            f"the run has {config.workers} workers, but there is room for {error.most} here: a "
            "resumed run keeps its workers: widen the cpuset, let them share cores by --set "
            "placement.pin=false, or divide them by --set nodes=N --set workers=M, as many in all"
        ) from error


@contextmanager
def job_peers_of(
    task: Task | None, node_share: NodeShare, config: RunConfig, data: DataContents | None = None
) -> Iterator[JobPeers | None]:
    """The peers of a task; None for a process that starts all workers of its run."""
    if task is None:
        yield None
        return
    from knltrain.launch.job_peers import JobPeers

    with JobPeers(task, node_share, config, data) as job_peers:
        yield job_peers


@contextmanager
def _at_its_node_share(
    plan: RunPlan, task: Task | None
) -> Iterator[tuple[RunPlan, JobPeers | None]]:
    """The plan of this process's part of the run, and the other processes that start workers."""
    with job_peers_of(task, plan.node_share, plan.config, plan.data) as job_peers:
        yield plan if job_peers is None else plan.at(job_peers.node_share), job_peers


def _carry_out(
    plan: RunPlan,
    run_folder: Path | None,
    job_peers: JobPeers | None,
    shared: Shared,
    kept_fds: Sequence[int],
    heeding: ExitStack,
    display: ProgressDisplay,
    *,
    resume: bool,
) -> Path:
    """Start this process's workers and wait for their end; the first process makes the run folder.

    Once there are workers, signals go to ``heeding``'s pipe. That is closed last, so that a signal
    during the rest of the closing does not change how the run has ended.
    """
    meeting_point = None
    one_job = strategy_of(plan.config).is_one_mpi_job and plan.workers > 1
    with ExitStack() as holding:
        if plan.workers > 1:
            from knltrain.communication.mpi.shared_files import SharedFiles

            holding.callback(SharedFiles().remove_abandoned)
        if job_peers is not None:
            run_folder, found = job_peers.settle(run_folder)
            meeting_point = found if plan.node_share.nodes > 1 or one_job else None
        elif one_job:
            meeting_point = holding.enter_context(_own_meeting_point())
        assert run_folder is not None
        if shared.part is not None:
            write_part(run_folder, shared.part)
        board = RequestBoard.create(len(plan.placements))
        holding.callback(board.close)
        initial = None if resume else _initial_parameters(plan, holding)
        orders = Orders(
            plan.noting(shared.notes), run_folder, shared, meeting_point, resume, board, initial
        )
        signals = heeding.enter_context(SignalPipe())
        _supervise(orders, job_peers, kept_fds, signals, display)
    return run_folder


def _initial_parameters(plan: RunPlan, holding: ExitStack) -> InitialParameters | None:
    """What this process draws for its workers; None for few values, and for those of a file."""
    if plan.config.network.weights is not None:
        return None
    network = build_network(plan.config)
    if network.packed_size < LEAST_DRAWN:
        return None
    from knltrain.assembly.initial_parameters import InitialParameters

    try:
        initial = InitialParameters(network, plan.config.seed, len(plan.placements))
    except (SegmentError, OSError):  # each worker finds memory for its own, or says so
        return None
    holding.callback(initial.close)
    return initial


@contextmanager
def _own_meeting_point() -> Iterator[MeetingPoint]:
    """The rendezvous of this computer's workers, where this process alone starts the run."""
    with socket.create_server((_LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        yield MeetingPoint(_LOOPBACK, port, _LOOPBACK, listener.fileno())


def _supervise(
    orders: Orders,
    job_peers: JobPeers | None,
    kept_fds: Sequence[int],
    signals: SignalPipe,
    display_here: ProgressDisplay,
) -> None:
    plan = orders.plan

    def tell(failure: Failure) -> None:
        if job_peers is not None:
            job_peers.give_up(str(worker_failed(failure, orders.run_folder)))

    with display_here as display, ExitStack() as started:
        heading = [_heading(plan, orders.run_folder)] if plan.node_share.leads else []
        for line in (*heading, *(f"note: {note}" for note in plan.notes)):
            display.note(line)
        listener = Listener(plan, orders.run_folder, display)
        preemption = _preemption(orders, job_peers, display)
        workers = [
            started.enter_context(start_worker(orders, placement, kept_fds))
            for placement in plan.placements
        ]
        if plan.pool is not None:
            workers.append(started.enter_context(start_pool(orders, plan.pool, kept_fds)))
        if orders.initial is not None:
            orders.initial.begin()
        limit_seconds = plan.config.exchange.timeout_seconds
        watching = Supervisor(
            workers,
            signals,
            orders.shared.abort,
            listener.hear,
            job_peers,
            preemption=preemption,
            limit_seconds=limit_seconds,
            on_failure=tell,
        )
        if job_peers is not None:
            from knltrain.launch.loss_news import LossNews

            job_peers.show_life(limit_seconds, LossNews(orders.board.losses))
        ending = watching.watch()
        listener.tell_skipped()
        for (rank, what), lacks in listener.lacking.items():
            display.note(f"missing: worker {rank}: {what}: {lacks}")
    if (error := error_of(ending, plan, orders.run_folder, listener)) is not None:
        raise error


def _preemption(orders: Orders, job_peers: JobPeers | None, display: ProgressDisplay) -> Preemption:
    config, leads = orders.plan.config, orders.plan.node_share.leads
    end = None
    if leads and config.preemption.heed_job_end:
        from knltrain.cluster.job_end import JobEnd

        end = JobEnd()
        if end() is None:
            display.note(
                "note: preemption.heed_job_end: this is no job of Slurm with a time limit, or "
                "neither SLURM_JOB_END_TIME nor squeue tells it"
            )
    rounds = Rounds(orders.board, job_peers)
    return Preemption(config, rounds, display.note, leads=leads, job_end=end)


def _unsaid(_line: str) -> None:
    """The first process alone tells what all do."""


def _heading(plan: RunPlan, run_folder: Path) -> str:
    config = plan.config
    workers = "1 worker" if plan.workers == 1 else f"{plan.workers} workers"
    nodes, way = plan.node_share.nodes, config.exchange.between_nodes
    written = config.exchange.wire_format
    data = config.data.name if plan.data is None else plan.data.name
    where = f" on {nodes} nodes, exchanging by {way} in {written}" if nodes > 1 else ""
    return (
        f"training {network_name(config, run_folder)} on {data} by {config.exchange.method} with "
        f"{workers}{where}; run folder {run_folder}"
    )
