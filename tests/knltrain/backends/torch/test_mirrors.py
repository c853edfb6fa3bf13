"""Vectors on a device: copies at the same places, updated when that is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.errors import DeviceError


def vector() -> np.ndarray:
    return np.arange(12, dtype=np.float32)


def test_on_the_host_a_vector_is_its_own_mirror() -> None:
    mirrors, values = Mirrors(), vector()
    assert mirrors.packed(values).data_ptr() == values.ctypes.data
    assert mirrors.view(values, values[3:5]).data_ptr() == values[3:5].ctypes.data
    mirrors.load(values)
    mirrors.store(values)
    np.testing.assert_array_equal(values, vector())


def test_a_mirror_changes_only_when_it_is_loaded_and_a_vector_only_when_it_is_stored() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), vector()
    there = mirrors.packed(values)
    assert not there.any()
    mirrors.load(values)
    assert there.tolist() == values.tolist()
    there += 1
    assert values.tolist() == vector().tolist()
    mirrors.store(values)
    assert values.tolist() == (vector() + 1).tolist()
    assert mirrors.packed(values) is there


def test_views_lie_where_those_of_the_vector_do() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), vector()
    part = values[4:10].reshape(2, 3).T
    mirrors.load(values)
    found = mirrors.view(values, part)
    assert found.tolist() == part.tolist()
    assert found.stride() == (1, 3)
    found.fill_(-1)
    assert mirrors.packed(values).tolist() == [0, 1, 2, 3, *[-1] * 6, 10, 11]


def test_a_closed_mirror_is_made_anew() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), vector()
    before = mirrors.packed(values)
    mirrors.close()
    assert mirrors.packed(values) is not before


def test_a_followed_vector_is_copied_only_when_it_is_needed() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), vector()
    there = mirrors.packed(values)
    mirrors.follow(values)
    assert mirrors.packed(values) is there
    mirrors.load(values)
    there += 1
    mirrors.store(values)
    assert values.tolist() == vector().tolist()
    mirrors.load(values)  # what is there is newer
    mirrors.to_host(values)
    assert values.tolist() == (vector() + 1).tolist()
    values += 1
    mirrors.load(values)  # nobody has told of it
    assert there.tolist() == (vector() + 1).tolist()
    mirrors.changed(values)
    mirrors.load(values)
    assert there.tolist() == (vector() + 2).tolist()


def test_many_followed_vectors_are_all_kept() -> None:
    mirrors, several = Mirrors(HOST, are_apart=True), [vector() for _ in range(20)]
    mirrors.follow(*several)
    for number, values in enumerate(several):
        mirrors.load(values)
        mirrors.packed(values).fill_(number)
        mirrors.store(values)
    mirrors.to_host(*several)
    assert [values[0] for values in several] == list(range(20))


def test_places_get_the_newest_values_and_give_theirs() -> None:
    for follows in (False, True):
        mirrors, values = Mirrors(HOST, are_apart=True), vector()
        place = torch.zeros(12, dtype=torch.float32, device=HOST)
        if follows:
            mirrors.follow(values)
        mirrors.load_into(place, values)
        assert place.tolist() == vector().tolist()
        place += 1
        mirrors.store_from(place, values)
        assert (values.tolist() == vector().tolist()) is follows
        mirrors.to_host(values)
        assert values.tolist() == (vector() + 1).tolist()
        place.zero_()
        mirrors.load_into(place, values)
        assert place.tolist() == (vector() + 1).tolist()


def test_threads_that_copy_behind_the_end_fail() -> None:
    mirrors, values = Mirrors(HOST, are_apart=True), vector()
    mirrors.follow(values)
    mirrors.close()
    for act in (mirrors.follow, mirrors.to_host, mirrors.send):
        with pytest.raises(DeviceError, match="released"):
            act(values)
