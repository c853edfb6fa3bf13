from __future__ import annotations

from vectorized_ops.numba.compiling.journal import Journal, MadeKernel, told


def test_kernels_are_noted_with_the_time_that_was_theirs() -> None:
    now = [0.0]
    kept = Journal(lambda: now[0])
    kept.begin()
    now[0] += 1
    kept.begin()
    now[0] += 2
    kept.end("inner", "(int64,)", compiled=False)
    now[0] += 4
    kept.end("outer", "(int64,)", compiled=True)
    assert kept.made == [
        MadeKernel("inner", "(int64,)", False, 2.0),
        MadeKernel("outer", "(int64,)", True, 5.0),
    ]


def test_what_failed_is_not_noted_and_not_counted_elsewhere() -> None:
    now = [0.0]
    kept = Journal(lambda: now[0])
    kept.begin()
    kept.begin()
    now[0] += 2
    kept.give_up()
    now[0] += 1
    kept.end("outer", "()", compiled=True)
    assert kept.made == [MadeKernel("outer", "()", True, 1.0)]


def test_what_is_told_tells_compiling_from_loading() -> None:
    made = [MadeKernel("a", "()", *one) for one in [(True, 2.0), (False, 0.25), (True, 0.5)]]
    assert told(made) == "kernels: 2 compiled in 2.5 s, 1 loaded in 0.2 s"
    assert told([]) == "kernels: 0 compiled in 0.0 s, 0 loaded in 0.0 s"
