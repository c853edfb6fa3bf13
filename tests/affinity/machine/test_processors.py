from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.machine.description import Description, KnightsFirmware, Processor
from affinity.machine.processors import identify, is_virtual, only_hbm

Describe = Callable[..., Description]


@pytest.mark.parametrize(
    ("processor", "family", "name"),
    [
        (Processor("GenuineIntel", 6, 87, "06/57"), "knights", "Knights Landing"),
        (Processor("GenuineIntel", 6, 133, "Xeon Phi"), "knights", "Knights Mill"),
        (Processor(name="Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz"), "knights", "Xeon Phi 72xx"),
        (Processor("AuthenticAMD", 6, 87, "odd"), "other", "odd"),
        (Processor("GenuineIntel", 15, 87, "odd"), "other", "odd"),
        (Processor("GenuineIntel", 11, 1, "Xeon Phi 7120"), "other", "Xeon Phi 7120"),
        (Processor("GenuineIntel", 6, 143, "Xeon(R) CPU Max 9480"), "xeon max", "Xeon Max"),
        (Processor("GenuineIntel", 6, 143, "XEON (R) CPU MAX 9460"), "xeon max", "Xeon Max"),
        (Processor(name="Xeon Max"), "xeon max", "Xeon Max"),
        (Processor("GenuineIntel", 6, 143, "Xeon Platinum 8480+"), "other", "Xeon Platinum 8480+"),
        (Processor("GenuineIntel", 6, 142, "Xeon CPU Max 9480"), "other", "Xeon CPU Max 9480"),
    ],
)  # fmt: skip
def test_numbers_and_name_tell_the_processor(
    describe: Describe, processor: Processor, family: str, name: str
) -> None:
    identity = identify(describe({0: 8}, processor=processor))
    assert (identity.family, identity.name, identity.guessed) == (family, name, False)


def test_smbios_tables_of_xeon_phi_tell_it_if_no_model_does(describe: Describe) -> None:
    description = describe({0: 8}, processor="")
    description.knights = KnightsFirmware("SNC4", "Flat", 0, "SMBIOS")
    assert identify(description).family == "knights"
    description.processor = Processor("AuthenticAMD", 25, 17, "AMD EPYC 9654")
    assert identify(description).family == "other"


def test_distances_count_only_without_any_name(describe: Describe) -> None:
    rows = [[10, 31], [31, 10]]
    nameless = identify(describe({0: 96}, {1: 16}, rows=rows, processor=""))
    assert (nameless.family, nameless.guessed) == ("knights", True)
    assert identify(describe({0: 96}, {1: 16}, rows=rows, processor="xeon")).family == "other"


def test_distances_of_xeon_max_are_told_from_those_of_xeon_phi(describe: Describe) -> None:
    rows = [[10, 21, 13, 23], [21, 10, 23, 13], [13, 23, 10, 23], [23, 13, 23, 10]]
    identity = identify(describe({0: 512, 1: 512}, {2: 64, 3: 64}, rows=rows, processor=""))
    assert (identity.family, identity.guessed) == ("xeon max", True)
    assert "no processor is named" in identity.evidence


def test_hypervisors_are_seen_by_flag_or_name() -> None:
    assert is_virtual(Processor(flags=("sse", "hypervisor")))
    assert is_virtual(Processor(name="QEMU Virtual CPU version 2.5+"))
    assert not is_virtual(Processor(name="AMD EPYC 9654", flags=("sse",)))


def test_processors_with_nothing_but_hbm_are_known_by_name() -> None:
    assert only_hbm(Processor(name="AMD Instinct MI300A Accelerator")) == (
        "Instinct MI300A has no memory but HBM3"
    )
    assert only_hbm(Processor(name="AMD EPYC 9654 96-Core Processor")) is None
