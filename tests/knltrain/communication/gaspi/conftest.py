"""Ranks that are threads, for the tests of the one-sided layer and of what is built on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest


def together(items: list[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Call ``function`` for all items at once, each in a thread; raise the first error."""
    with ThreadPoolExecutor(len(items)) as pool:
        return [each.result() for each in [pool.submit(function, item) for item in items]]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(2)
    assert not [thread.name for thread in left if thread.is_alive()]
