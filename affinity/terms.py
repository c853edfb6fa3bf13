"""How messages call what a user can set: by options of `python -m affinity`, or by own keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptionNames:
    """What a program calls the options; {} stands for the value, where a message has one."""

    policy: str = "policy '{}'"
    kind: str = "kind '{}'"
    hbm: str = "--hbm"
    hbm_nodes: str = "--hbm {}"


_names: ContextVar[OptionNames] = ContextVar("option_names", default=OptionNames())  # noqa: B039


@contextmanager
def options_named(names: OptionNames) -> Iterator[None]:
    """Within this context messages and notes use these names."""
    token = _names.set(names)
    try:
        yield
    finally:
        _names.reset(token)


def policy(value: str) -> str:
    """What a message calls a memory policy: "policy 'strict'"."""
    return _names.get().policy.format(value)


def kind(value: str) -> str:
    """What a message calls a kind of memory: "kind 'hbm'"."""
    return _names.get().kind.format(value)


def hbm(nodes: str | int = "") -> str:
    """What a message calls the option for which NUMA nodes are HBM: "--hbm", or "--hbm 1"."""
    names = _names.get()
    return names.hbm if nodes == "" else names.hbm_nodes.format(nodes)
