"""The seconds of collective operations on a vector of n bytes over P ranks.

Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
2005, unless a function names another source. A message of n bytes takes α + β n, and adding n bytes
up takes γ n.
"""

from __future__ import annotations

from knltrain.cost_model.line import Link
from knltrain.errors import ConfigError


def levels(ranks: int) -> int:
    """Levels of a binomial tree: the logarithm of P, rounded up. ConfigError for P < 1."""
    if ranks < 1:
        raise ConfigError(f"{ranks} ranks: expected at least 1")
    return (ranks - 1).bit_length()


def k_ary_levels(ranks: int, children: int) -> int:
    """Levels below the root of a tree of so many children at each node; ConfigError for none."""
    if children < 1:
        raise ConfigError(f"{children} children: expected at least 1")
    _ = levels(ranks)
    found, reached, row = 0, 1, 1
    while reached < ranks:
        row *= children
        reached += row
        found += 1
    return found


def broadcast(link: Link, size: float, ranks: int) -> float:
    """By a binomial tree: ⌈log P⌉ (α + β n)."""
    return levels(ranks) * link.message(size)


def reduction(link: Link, size: float, ranks: int) -> float:
    """By a binomial tree: ⌈log P⌉ (α + β n + γ n)."""
    return levels(ranks) * (link.message(size) + link.gamma * size)


def tree(link: Link, size: float, ranks: int) -> float:
    """A reduction and a broadcast, as SC17's Sync EASGD: 2 ⌈log P⌉ (α + β n) + ⌈log P⌉ γ n."""
    return reduction(link, size, ranks) + broadcast(link, size, ranks)


def one_after_another(link: Link, size: float, ranks: int) -> float:
    """A master serves each other rank in turn, as SC17's Original EASGD.

    2 (P - 1) (α + β n) + (P - 1) γ n: the vector goes to the master and back.
    """
    _ = levels(ranks)
    return (ranks - 1) * (2 * link.message(size) + link.gamma * size)


def ring(link: Link, size: float, ranks: int) -> float:
    """An all-reduce by a ring: 2 (P - 1) α + 2 β n (P - 1)/P + γ n (P - 1)/P."""
    _ = levels(ranks)
    share = size * (ranks - 1) / ranks
    return 2 * (ranks - 1) * link.alpha + share * (2 * link.beta + link.gamma)


def recursive_doubling(link: Link, size: float, ranks: int) -> float:
    """An all-reduce by pairs: ⌊log P⌋ (α + β n + γ n), and twice a message for what is no power."""
    full = _pairings(ranks)
    extra = 0.0 if ranks == 1 << full else 2 * link.message(size) + link.gamma * size
    return full * (link.message(size) + link.gamma * size) + extra


def halving_and_doubling(link: Link, size: float, ranks: int) -> float:
    """Rabenseifner's all-reduce: 2 ⌊log P⌋ α + (2 β + γ) n (P - 1)/P.

    Where P is no power of 2 the ranks beyond one send everything there, where it is added up, and
    get all back.
    """
    full = _pairings(ranks)
    power = 1 << full
    extra = 0.0 if ranks == power else 2 * link.message(size) + link.gamma * size
    share = size * (power - 1) / power
    return 2 * full * link.alpha + share * (2 * link.beta + link.gamma) + extra


def pipelined_tree(
    link: Link, size: float, ranks: int, *, children: int = 2, pieces: int = 1
) -> float:
    """A broadcast by a tree of so many children, in pieces, as CaffeGPI's.

    (c + L - 1) b (α + β n/c) for c pieces, L levels and b children that share their parent's link
    (Kuehn, Keuper, Pfreundt, arXiv 1706.00095). ConfigError for less than one of either.
    """
    if min(children, pieces) < 1:
        raise ConfigError(f"{children} children, {pieces} pieces: expected at least 1 of each")
    depth = k_ary_levels(ranks, children)
    if not depth:
        return 0.0
    return (pieces + depth - 1) * children * link.message(size / pieces)


def shared_center(
    link: Link, size: float, ranks: int, *, servers: int = 1, add: float = 0.0
) -> float:
    """All ranks read and accumulate a center that S servers hold, as ShmCaffe's memory box.

    Each byte of a rank goes through a server's link twice, and the accumulations of a part, `add`
    seconds a byte, wait for each other: P (2 β + add) n / S + 2 α. ConfigError for no server.
    """
    if servers < 1:
        raise ConfigError(f"{servers} servers: expected at least 1")
    _ = levels(ranks)
    return 2 * link.alpha + ranks * size * (2 * link.beta + add) / servers


def _pairings(ranks: int) -> int:
    """The logarithm of P, rounded down."""
    _ = levels(ranks)
    return ranks.bit_length() - 1
