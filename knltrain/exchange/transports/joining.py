"""How a worker joins the segments that the process that starts workers has made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from knltrain.communication.internode.collective import NodeCollective
from knltrain.exchange.transports.across_nodes import CrossNodeTransport
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.team import Team

if TYPE_CHECKING:
    from knltrain.communication.internode.wire.wire_format import CenterFormats
    from knltrain.exchange.transports.one_sided_center import OneSidedCenter

JoinJob: TypeAlias = Callable[[int, int, Callable[[], None]], Any]
"""join_job(rank, ranks, check): makes this process a rank of MPI, and returns `mpi4py.MPI`. It
calls ``check`` while it waits, which may raise."""


def join(fds: Sequence[int], rank: int, timeout_seconds: float) -> Team:
    """Become worker ``rank`` of the segments with the file descriptors of `NodeMemory.fds_of`.

    The team closes them. Raises SegmentError as `Segment.attach` and `Segment.claim` do.
    """
    with _attached(fds) as segments:
        if len(segments) == 1:
            return NodeShared(segments[0], rank, timeout_seconds)
        return _in_group(segments[0], segments[1], rank, timeout_seconds)


def join_across_nodes(
    fds: Sequence[int],
    rank: int,
    timeout_seconds: float,
    node: int,
    nodes: int,
    collective: NodeCollective | None,
) -> Team:
    """Become worker ``rank`` of this node as by `join`; its first worker has the ``collective``.

    The team closes that, too.
    """
    with _attached(fds, collective) as segments:
        mine, last = segments[0], segments[-1]
        of_node = range(node * mine.workers, (node + 1) * mine.workers)
        if len(segments) == 1:
            return CrossNodeTransport(mine, rank, collective, node, nodes, timeout_seconds, of_node)
        center = last.center
        inside = NodeShared(mine, rank, timeout_seconds, of_node)
        if collective is None:
            last.close()  # the center stays mapped as long as an array uses it
            return GroupedTeam(node, nodes, inside, None, center)
        name = (of_node.start,)
        outside = CrossNodeTransport(
            last, 0, collective, node, nodes, timeout_seconds, name, local=inside.center
        )
        return GroupedTeam(node, nodes, inside, outside, center)


def join_for_one_sided(
    fds: Sequence[int],
    rank: int,
    workers: int,
    join_job: JoinJob,
    timeout_seconds: float,
    longest_seconds: float,
    servers: Sequence[int] | None = None,
    formats: CenterFormats | None = None,
) -> Team:
    """Become worker ``rank`` of ``workers`` on all nodes, which visit the center by MPI.

    A worker that visits the center becomes a rank of MPI by ``join_job``. With groups these are
    only their roots; the others wait for them up to ``longest_seconds``. The center lies on the
    nodes ``servers``, by default on all; ``formats`` are those of `OneSidedCenter`. Raises what
    `join` and ``join_job`` do.
    """
    with _attached(fds) as segments:
        mine, comers = segments[0], segments[-1]
        size = mine.workers if len(segments) > 1 else 1
        number, inside_rank = divmod(rank, size)
        groups, place = workers // size, number % comers.workers
        how = timeout_seconds, servers, formats
        if len(segments) == 1:
            return _comer(comers, number, 1, groups, join_job, *how)
        of_group = range(number * size, (number + 1) * size)
        inside, outside = NodeShared(mine, inside_rank, timeout_seconds, of_group), None
        center = comers.spares[place]
        if inside_rank == 0:
            outside = _comer(comers, number, size, groups, join_job, *how)
        else:
            comers.close()  # the copy of the center stays mapped as long as an array uses it
        inside.barrier(longest_seconds)
        return GroupedTeam(number, groups, inside, outside, center)


def _comer(
    segment: Segment,
    number: int,
    size: int,
    comers: int,
    join_job: JoinJob,
    timeout_seconds: float,
    servers: Sequence[int] | None,
    formats: CenterFormats | None,
) -> OneSidedCenter:
    """Return rank ``number`` of the visitors of the center, each for ``size`` workers.

    ``segment`` is that of the visitors (``comers``) on the same node.
    """
    from knltrain.exchange.transports.one_sided_center import OneSidedCenter

    here = segment.workers
    first = number // here * here
    names = range(first * size, (first + here) * size, size)
    at_home = NodeShared(segment, number % here, timeout_seconds, names)
    job, vectors = join_job(number, comers, at_home.check), len(segment.kept)
    return OneSidedCenter(at_home, job, timeout_seconds, vectors, servers, formats)


def join_one_job(
    fds: Sequence[int],
    rank: int,
    workers: int,
    join_job: JoinJob,
    timeout_seconds: float,
) -> Team:
    """Become worker ``rank`` of ``workers`` on all nodes, which write to each other by one MPI job.

    All of them become ranks of MPI by ``join_job``. Raises what `join_for_one_sided` does.
    """
    with _attached(fds) as (mine,):
        node, local_rank = divmod(rank, mine.workers)
        of_node = range(node * mine.workers, (node + 1) * mine.workers)
        inside = NodeShared(mine, local_rank, timeout_seconds, of_node)
        return JobTeam.of_job(inside, join_job(rank, workers, inside.check), timeout_seconds)


@contextmanager
def _attached(
    fds: Sequence[int], collective: NodeCollective | None = None
) -> Iterator[list[Segment]]:
    """Map the segments of the files; closes them and ``collective`` after an error."""
    segments: list[Segment] = []
    try:
        for fd in fds:
            segments.append(Segment.attach(fd))
        yield segments
    except BaseException:
        for segment in segments:
            segment.close()
        if collective is not None:
            collective.close()
        raise


def _in_group(mine: Segment, roots: Segment, rank: int, timeout_seconds: float) -> GroupedTeam:
    size, groups, center = mine.workers, roots.workers, roots.center
    group, inside_rank = divmod(rank, size)
    of_group = range(group * size, (group + 1) * size)
    inside = NodeShared(mine, inside_rank, timeout_seconds, of_group)
    if inside_rank == 0:
        outside = NodeShared(roots, group, timeout_seconds, range(0, groups * size, size))
        return GroupedTeam(group, groups, inside, outside, center)
    roots.close()  # the center stays mapped as long as an array uses it
    return GroupedTeam(group, groups, inside, None, center)
