"""A parser that raises what the command line would print."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

import pytest

AddOptions = Callable[[argparse.ArgumentParser], None]


class _RefusedError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _RefusedError(message)


@pytest.fixture
def parsed() -> Callable[..., argparse.Namespace]:
    """Parse words by the options that a function adds."""

    def parse(add_options: AddOptions, *words: str) -> argparse.Namespace:
        parser = _Parser()
        add_options(parser)
        return parser.parse_args(words)

    return parse


@pytest.fixture
def refusal(parsed: Callable[..., argparse.Namespace]) -> Callable[..., str]:
    """What is said of words that cannot be read."""

    def refuse(add_options: AddOptions, *words: str) -> str:
        with pytest.raises(_RefusedError) as caught:
            parsed(add_options, *words)
        return str(caught.value)

    return refuse
