from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.machine.description import Description, KnightsFirmware, Processor
from affinity.machine.processors import (
    arm_part,
    identify,
    is_virtual,
    only_hbm,
    takes_optane,
    vendor_of,
)

Describe = Callable[..., Description]


@pytest.mark.parametrize(
    ("processor", "family", "name"),
    [
        (Processor("GenuineIntel", 6, 87, "06/57"), "knights", "Knights Landing"),
        (Processor("GenuineIntel", 6, 133, "Xeon Phi"), "knights", "Knights Mill"),
        (Processor(name="Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz"), "knights", "Xeon Phi 72xx"),
        (Processor("GenuineIntel", 6, 87), "knights", "Knights Landing"),
        (Processor("unknown", 6, 133), "knights", "Knights Mill"),
        (Processor(name="Knights Landing"), "knights", "Xeon Phi 72xx"),
        (Processor("AuthenticAMD", 6, 87, "odd"), "other", "odd"),
        (Processor("unknown", 6, 87, "AMD odd"), "other", "AMD odd"),
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


@pytest.mark.parametrize(
    ("processor", "vendor"),
    [
        (Processor("GenuineIntel", name="AMD"), "intel"),
        (Processor(name="Intel(R) Core(TM) i9"), "intel"),
        (Processor("AuthenticAMD"), "amd"),
        (Processor("HygonGenuine", name="Hygon C86 7185 32-core Processor"), "amd"),
        (Processor(name="AMD EPYC 7763 64-Core Processor"), "amd"),
        (Processor(name="EPYC-Milan"), "amd"),
        (Processor("0x41", name="Neoverse-N1"), "other"),
        (Processor(), "unknown"),
    ],
)
def test_vendor_is_told_first_and_named_second(processor: Processor, vendor: str) -> None:
    assert vendor_of(processor) == vendor


@pytest.mark.parametrize(
    ("processor", "takes"),
    [
        (Processor("GenuineIntel", 6, 85), True),
        (Processor("GenuineIntel", 6, 106, "Intel(R) Xeon(R) Platinum 8380"), True),
        (Processor("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+"), True),
        (Processor("GenuineIntel", 6, 143), False),
        (Processor("GenuineIntel", 6, 143, "Intel(R) Xeon(R) CPU Max 9480"), False),
        (Processor("GenuineIntel", 6, 173, "Intel(R) Xeon(R) 6980P"), False),
        (Processor("GenuineIntel", 6, 85, "Xeon", ("hypervisor",)), False),
        (Processor(name="Intel(R) Xeon(R) Gold 6230"), True),
        (Processor("AuthenticAMD", 25, 17, "AMD EPYC 9654"), False),
    ],
)
def test_optane_goes_with_some_xeons_only(processor: Processor, takes: bool) -> None:
    assert takes_optane(processor) is takes


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


@pytest.mark.parametrize(
    ("processor", "hbm"),
    [
        (Processor(name="AMD Instinct MI300A Accelerator"), "HBM3"),
        (Processor(name="AMD EPYC 9V64H 88-Core Processor"), "HBM3"),
        (Processor("AuthenticAMD", 25, 0x90), "HBM3"),
        (Processor("FUJITSU", name="A64FX"), "HBM2"),
        (Processor("0x46", None, 0x001), "HBM2"),
    ],
)
def test_processors_with_nothing_but_hbm_are_known(processor: Processor, hbm: str) -> None:
    known = only_hbm(processor)
    assert known is not None
    assert known.hbm == hbm


@pytest.mark.parametrize(
    "processor",
    [
        Processor(name="AMD EPYC 9654 96-Core Processor"),
        Processor("AuthenticAMD", 25, 0xA0),
        Processor("GenuineIntel", 25, 0x90),
        Processor("0x41", None, 0x001),
        Processor("0x46", None, 0x003),
    ],
)
def test_other_processors_have_more_than_hbm(processor: Processor) -> None:
    assert only_hbm(processor) is None


def test_numbers_of_arms_parts_are_hexadecimal() -> None:
    assert (arm_part("0xd4f"), arm_part("0x001"), arm_part(""), arm_part("d4f")) == (
        *(0xD4F, 1, None, None),
    )


def test_distances_of_xeon_max_count_for_a_sapphire_rapids_without_name(describe: Describe) -> None:
    rows = [[10, 13], [13, 10]]
    nameless = Processor("GenuineIntel", 6, 143)
    assert identify(describe({0: 512}, {1: 64}, rows=rows, processor=nameless)).family == "xeon max"
    other = Processor("GenuineIntel", 6, 106)
    assert identify(describe({0: 512}, {1: 64}, rows=rows, processor=other)).family == "other"
    phi_like = [[10, 31], [31, 10]]
    found = identify(describe({0: 96}, {1: 16}, rows=phi_like, processor=nameless))
    assert found.family == "other"
