"""What a member answers."""

import subprocess
import sys

import numpy as np
import pytest

from knltrain.bench.exchange.member import Answers, HeldVectors, Member, WrongResult, check_values


class Counted(HeldVectors):
    def __init__(self, done):
        self.done = done
        self.operations = {"exchange": lambda: done.append("exchange")}

    def check(self):
        self.done.append("check")

    def meet(self):
        self.done.append("meet")

    def close(self):
        self.done.append("close")


class Recorder(Member):
    version = "a recorder"

    def __init__(self):
        self.done = []

    def join(self, token):
        self.done.append(token)

    def hold(self, sizes, handles):
        self.done.append((sizes, handles))
        return Counted(self.done)


def test_members_find_each_other_hold_run_and_drop():
    member = Recorder()
    answers = Answers(member)
    assert answers({"do": "token"}) == {"token": ""}
    assert answers({"do": "join", "token": "here"}) == {}
    question = {"do": "hold", "name": "a", "sizes": [3], "handles": [7]}
    assert answers(question) == {"operations": ["exchange"]}
    assert answers({"do": "drop", "name": "a"}) == {}
    assert member.done == ["here", ([3], [7]), "check", "close"]
    with pytest.raises(KeyError):
        answers({"do": "run", "name": "a", "operation": "exchange", "count": 1})


def test_some_exchanges_come_before_all_meet_and_time_begins():
    member = Recorder()
    answers = Answers(member)
    answers({"do": "hold", "name": "a", "sizes": [3], "handles": []})
    member.done.clear()
    answer = answers({"do": "run", "name": "a", "operation": "exchange", "count": 16})
    assert member.done == ["exchange"] * 3 + ["meet"] + ["exchange"] * 16
    assert 0 < answer["end"] - answer["begin"] < 1


def test_wrong_values_are_told():
    check_values("it", [np.full(3, 1.5, np.float32)], 1.5)
    with pytest.raises(WrongResult, match=r"it: 1 of 3 values are wrong, such as 2.0 instead of 1"):
        check_values("it", [np.ones(2, np.float32), np.array([1, 2, 1], np.float32)], 1)


PRINTS = """
import os
from knltrain.bench.exchange.member import serve_apart
def answer(question):
    os.write(1, b"a library says")
    print("more")
    return {"asked": question}
serve_apart("one", answer)
"""


def test_what_libraries_print_is_no_answer():
    done = subprocess.run(
        [sys.executable, "-c", PRINTS], input="[2]\n", capture_output=True, text=True, check=True
    )
    assert "a library says" in done.stderr
    assert done.stdout.splitlines()[0] == '{"ready": {"version": "one"}}'
    assert done.stdout.splitlines()[-1] == '{"asked": [2]}'
    assert "library" not in done.stdout
