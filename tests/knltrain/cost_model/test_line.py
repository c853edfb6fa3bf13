"""The line of latency and bandwidth."""

import pytest

from knltrain.cost_model.line import Link, fit
from knltrain.errors import ConfigError


def test_times_on_a_line_give_the_line_back():
    line = fit({size: 5e-6 + 2e-10 * size for size in (4096, 65536, 10**6, 10**8)})
    assert (line.alpha, line.beta) == (pytest.approx(5e-6), pytest.approx(2e-10))


def test_each_size_counts_the_same_however_long_it_takes():
    exact = {size: 1e-5 + 1e-9 * size for size in (1000, 2000, 4000, 10**9)}
    line = fit({**exact, 10**9: 1.2 * exact[10**9]})  # absolute errors would drown α
    assert line.alpha == pytest.approx(1e-5, rel=0.1)


@pytest.mark.parametrize(
    ("times", "alpha", "beta"),
    [({1: 1.0, 2: 4.0}, 0, pytest.approx(1.2)), ({1: 2.0, 2: 1.0}, pytest.approx(1.2), 0)],
)
def test_neither_is_negative_but_the_best_that_is_left(times, alpha, beta):
    line = fit(times)
    assert (line.alpha, line.beta) == (alpha, beta)

    def errors(other):
        return sum((other.seconds([size]) / time - 1) ** 2 for size, time in times.items())

    for factor in (0.99, 1.01):
        assert errors(line) < errors(Link(line.alpha * factor, line.beta * factor))


def test_one_size_is_no_line():
    assert fit({4096: 1e-5}) is None


def test_messages_one_by_one_pay_the_latency_each():
    line = Link(alpha=2.0, beta=0.5)
    assert line.seconds([10, 20, 30]) == 3 * 2 + 30
    assert line.seconds([60]) == 2 + 30


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["alpha", "beta", "gamma"])
def test_a_link_takes_finite_seconds(name, seconds):
    with pytest.raises(ConfigError, match="expected finite numbers of seconds, 0 or more"):
        Link(**{"alpha": 0.0, "beta": 0.0, name: seconds})
