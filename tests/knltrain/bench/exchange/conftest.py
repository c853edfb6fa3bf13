"""A report of made-up numbers, for table and picture."""

import pytest


@pytest.fixture
def report():
    return {
        "machine": {"model": "a machine"},
        "settings": {"NUMBA_CPU_NAME": "knl"},
        "versions": {"segment": "knltrain 1", "gloo": "torch 2"},
        "workers": 2,
        "cores_per_worker": 1,
        "workers_per_core": 1,
        "rounds": 3,
        "peers": ["gloo"],
        "absent": {"mpi": "there is no mpiexec"},
        "left_out": [{"bytes": 2**30, "reason": "too much"}],
        "copy_gbytes_per_second": 20.0,
        "rows": [
            row("sync_easgd", 4096, 1e-5, {"gloo": 50.0}),
            row("gloo", 4096, 5e-4, {}),
            row("read, write by 2", 4096, 1e-5, {}),
            row("sync_easgd", 28_000_000, 4e-3, {"gloo": 6.0}),
            row("gloo", 28_000_000, 2.4e-2, {}),
        ],
        "lines": {
            "sync_easgd": {"alpha_seconds": 1e-5, "beta_seconds": 1.25e-10},
            "gloo": {"alpha_seconds": 5e-4, "beta_seconds": 0.0},
        },
        "masters": {
            "alpha_seconds": None,
            "beta_seconds": None,
            "rows": [
                {
                    "contestant": "sync_easgd1",
                    "bytes": 4096,
                    "workers": workers,
                    "by_line": None,
                    "by_size": 3e-5,
                    "seconds": 4e-5 if workers == 2 else None,
                }
                for workers in (2, 3)
            ],
        },
        "packing": {
            "network": "lenet",
            "bytes": 2**20,
            "layers": 8,
            "rows": [
                {
                    "contestant": "sync_easgd",
                    "packed_seconds": 1e-4,
                    "layers_seconds": 2e-4,
                    "gain": 2.0,
                    "predicted_gain": None,
                }
            ],
        },
    }


def row(name, size, seconds, faster_than):
    return {
        "bytes": size,
        "contestant": name,
        "seconds": seconds,
        "predicted_seconds": 2 * seconds if size > 4096 else None,
        "least_seconds": seconds / 2,
        "gbytes_per_second": size / seconds / 1e9,
        "share_of_copy": 0.125,
        "faster_than": faster_than,
    }
