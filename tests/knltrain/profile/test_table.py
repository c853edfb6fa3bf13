from __future__ import annotations

from profiles.material import document, measure

from knltrain.profile.table import told


def rows(text: str, name: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(name)]


def test_each_stage_and_direction_has_a_row() -> None:
    text = told(document(measure(), measure(2.0)))
    forward, weights = rows(text, "conv ")
    assert forward[1:5] == ["forward", "convolution", "3x3", "winograd4"]
    assert forward[5] == "6.500"  # ms, the mean of both workers
    assert weights[1] == "backward-weights"
    assert "ok   operations against the network's" in text
    assert "load balance" in text
    assert rows(text, "bn to conv")[0][3:] == ["0.00", "1.500", "4.500", "0.750", "2000.0"]


def test_the_longest_are_shown_and_the_others_summed() -> None:
    text = told(document(), 1)
    assert len(rows(text, "conv ")) == 1
    assert rows(text, "3 others")[0][2] == "4.875"


def test_one_worker_is_compared_with_none() -> None:
    text = told(document())
    assert "load balance" not in text
    assert "spread" not in text


def test_of_many_workers_the_fastest_and_the_slowest_are_shown() -> None:
    text = told(document(*(measure(1 + rank / 10) for rank in range(20))))
    assert "4 workers between the fastest and the slowest are left out" in text
    shown = [int(row[0]) for row in rows(text, " ") if row[0].isdigit()]
    assert shown == [*range(8), *range(12, 20)]
