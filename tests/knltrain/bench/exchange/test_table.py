"""The report as text."""

from knltrain.bench.exchange.table import format_table


def test_table_has_a_line_for_each_size_and_contestant(report):
    lines = [" ".join(line.split()) for line in format_table(report).splitlines()]
    assert lines[0] == "2 workers with 1 core each on a machine, medians of 3 alternating rounds"
    assert lines[1] == "copy by all workers 20.0 GB/s (read and written)"
    assert "NUMBA_CPU_NAME=knl" in lines
    assert "gloo: torch 2" in lines
    assert "4 KiB sync_easgd 10.0 µs 5.0 µs 0.41 0.125 50.00x" in lines
    assert "gloo 500.0 µs 250.0 µs 0.00819 0.125" in lines
    assert "28 MB sync_easgd 4.00 ms 8.00 ms 2.00 ms 7 0.125 6.00x" in lines


def test_table_tells_the_lines_what_packing_gains_and_who_is_missing(report):
    lines = [" ".join(line.split()) for line in format_table(report).splitlines()]
    assert "sync_easgd 10.0 µs + n / (8.00 GB/s)" in lines
    assert "gloo 500.0 µs + n / (any speed)" in lines
    assert "lenet: 1.0 MiB packed, or its 8 parameter tensors one by one" in lines
    assert "sync_easgd 100.0 µs 200.0 µs 2.00x -" in lines
    assert lines[-2:] == ["1 GiB is left out: too much", "mpi cannot run: there is no mpiexec"]


def test_table_without_network_lines_and_peers(report):
    report |= {"packing": None, "lines": {"sync_easgd": None}, "absent": {}, "peers": []}
    report |= {"left_out": [], "cores_per_worker": 8}
    table = format_table(report)
    assert "2 workers with 8 cores each" in table
    for word in ("packed", "fitted", "cannot run", "left out"):
        assert word not in table


def test_a_tree_and_turns_are_told_for_powers_of_two_and_who_shares_cores(report):
    lines = [" ".join(line.split()) for line in format_table(report).splitlines()]
    assert [line for line in lines if line.startswith("sync_easgd1")] == [
        "sync_easgd1 4 KiB 2 30.0 µs 40.0 µs"
    ]
    told = format_table({**report, "workers_per_core": 2})
    assert told.startswith("2 workers with 1 core each, 2 on the same, on a machine")
