from __future__ import annotations

import errno
import fcntl
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose

import vectorized_ops
from vectorized_ops.numba.compiling import compiler

PACKAGE = Path(vectorized_ops.__file__).parent
SCRIPT = Path(__file__).parents[1] / "other_processor.py"
INSTRUCTIONS = {
    "knl": {"avx512f", "avx512cd", "avx2", "fma", "bmi", "bmi2", "lzcnt"},
    "haswell": {"avx2", "fma", "bmi", "bmi2", "lzcnt"},
}
LANES = {"knl": 16, "haswell": 8}

ON_BYTES = (
    r"vp(abs|adds?|addus|subs?|subus|avg|cmpu?|cmpeq|cmpgt|max[su]|min[su]|mull|mulh\w*|sll|srl|sra"
    r"|shuf[hl]?|unpck[hl]|sad|alignr|broadcast|perm|permi2|permt2)(b|w|bw|wd)"
)
WIDENING = r"vp(mov[sz]xbw|maddwd|maddubsw|ack[su]s(wb|dw))"
SHORT = r"^(?!.*zmm)(?!v\w+s[sd]\b).*"  # not of 512 bits and not of a single number
ON_MASKS = r"k(mov|and|andn|or|xor|xnor|not|ortest|test|shift[lr]|add)"
BEYOND_KNL = {
    "AVX-512VL registers": rf"{SHORT}%[xy]mm(1[6-9]|2\d|3[01])\b",
    "AVX-512VL masks": rf"{SHORT}%[xy]mm\d+.*%k\d",
    "AVX-512VL broadcasts": rf"{SHORT}\{{1to\d+\}}.*%[xy]mm"
    r"|^vpbroadcast[bwdq]\t%(?!.mm)\w+, %[xy]mm",
    "AVX-512VL instructions": r"^(?!.*zmm)v(p(movu?s?(db|dw|qb|qw|qd)|srav?q|(min|max)[su]q|absq"
    r"|ro[lr]v?[dq]|ternlog[dq]|(and|andn|or|xor)[dq]|blendm[dq]|ermt2\w+|ermi2\w+"
    r"|conflict[dq]|lzcnt[dq])|movdq[au](32|64)|align[dq]|blendmp[sd]|shuf[fi](32x4|64x2)"
    r"|(insert|extract|broadcast)[fi]32x4|cvtt?p[sd]2udq|cvtudq2p[sd]|(rndscale|scalef|fixupimm"
    r"|getexp|getmant|rcp14|rsqrt14)p[sd])\b|^vperm(pd|q)\t%ymm\d+, %ymm\d+, %ymm",
    "AVX-512BW moves": r"^(vmovdqu(8|16)|vpmov[bw]2m|vpmovm2[bw]|vpmovu?s?wb)\b"
    r"|^(vpblendm|vptestn?m)[bw]\b",
    "AVX-512BW arithmetic": rf"^{ON_BYTES}\b.*(%zmm|%k\d)|^{WIDENING}\b.*%zmm"
    r"|^vp(alignr|s[lr]ldq|mulhrsw)\b.*%zmm|^(vperm[it]?2?w|vps(ll|rl|ra)vw|vdbpsadbw)\b",
    "AVX-512BW masks": rf"^{ON_MASKS}[dq]\b|^kunpck(wd|dq)\b",
    "AVX-512DQ masks": rf"^{ON_MASKS}b\b|^k(test|add)w\b",
    "AVX-512DQ logic": r"^v(and|andn|or|xor)p[sd]\b.*(%zmm|\{%k)",
    "AVX-512DQ moves": r"^(vpmov[dq]2m|vpmovm2[dq]|vpmullq)\b"
    r"|^v(insert|extract|broadcast)[fi](32x2|64x2|32x8)\b",
    "AVX-512DQ conversions": r"^v(cvtt?p[sd]2u?qq|cvtu?qq2p[sd]|fpclass\w+|range\w+|reduce\w+)\b",
    "later extensions": r"^(vdpbf16ps|vcvtne\w+|vpdpbusds?|vpdpwssds?|vpopcnt\w+|vpermi?t?2?b"
    r"|vpcompress[bw]|vpexpand[bw]|vpsh[lr]d\w+|vpmultishiftqb|vpmadd52\w+|\w*gf2p8\w+)\b",
}
"""Knights Landing has AVX-512F, CD, ER and PF; patterns are those of AT&T syntax."""


def beyond_knl(line: str) -> str | None:
    """The extension that an instruction needs and Knights Landing does not have."""
    found = (name for name, pattern in BEYOND_KNL.items() if re.search(pattern, line.strip()))
    return next(found, None)


@pytest.mark.parametrize(
    ("line", "extension"),
    [
        ("\tvpmovm2d\t%k0, %zmm1", "AVX-512DQ moves"),
        ("\tvpmovd2m\t%zmm0, %k1", "AVX-512DQ moves"),
        ("\tkmovd\t%eax, %k1", "AVX-512BW masks"),
        ("\tkmovq\t%k1, %rax", "AVX-512BW masks"),
        ("\tkmovb\t%eax, %k1", "AVX-512DQ masks"),
        ("\tvmovups\t%ymm16, (%rax)", "AVX-512VL registers"),
        ("\tvaddps\t(%rax), %xmm31, %xmm2", "AVX-512VL registers"),
        ("\tvmovaps\t%ymm1, %ymm0 {%k1}", "AVX-512VL masks"),
        ("\tvpcmpeqb\t%ymm1, %ymm0, %k0", "AVX-512VL masks"),
        ("\tvpcmpeqd\t(%r13){1to8}, %ymm0, %k5", "AVX-512VL masks"),
        ("\tvpaddq\t(%r15){1to4}, %ymm0, %ymm0", "AVX-512VL broadcasts"),
        ("\tvpmovdb\t%ymm0, (%r13,%rsi)", "AVX-512VL instructions"),
        ("\tvpsraq\t$63, %ymm0, %ymm1", "AVX-512VL instructions"),
        ("\tvpbroadcastq\t%rdx, %ymm12", "AVX-512VL broadcasts"),
        ("\tvmovdqu8\t(%rax), %zmm0 {%k1} {z}", "AVX-512BW moves"),
        ("\tvpcmpeqb\t%zmm1, %zmm0, %k0", "AVX-512BW arithmetic"),
        ("\tvpaddw\t%zmm1, %zmm0, %zmm0", "AVX-512BW arithmetic"),
        ("\tvpbroadcastb\t%eax, %xmm0", "AVX-512VL broadcasts"),
        ("\tvpbroadcastw\t%eax, %zmm0", "AVX-512BW arithmetic"),
        ("\tvpermw\t%ymm1, %ymm0, %ymm0", "AVX-512BW arithmetic"),
        ("\tvpermt2w\t%zmm1, %zmm0, %zmm2", "AVX-512BW arithmetic"),
        ("\tvpsrlvw\t%xmm1, %xmm0, %xmm0", "AVX-512BW arithmetic"),
        ("\tvpalignr\t$4, %zmm1, %zmm0, %zmm0", "AVX-512BW arithmetic"),
        ("\tvpslldq\t$4, %zmm1, %zmm0", "AVX-512BW arithmetic"),
        ("\tvmovdqu64\t%ymm1, (%rax)", "AVX-512VL instructions"),
        ("\tvrndscaleps\t$1, %ymm1, %ymm0", "AVX-512VL instructions"),
        ("\tvcvtudq2ps\t%ymm1, %ymm0", "AVX-512VL instructions"),
        ("\tvpermpd\t%ymm1, %ymm0, %ymm0", "AVX-512VL instructions"),
        ("\tvandps\t%zmm1, %zmm0, %zmm0", "AVX-512DQ logic"),
        ("\tvcvttps2uqq\t%ymm1, %zmm0", "AVX-512DQ conversions"),
        ("\tvinsertf32x8\t$1, %ymm1, %zmm0, %zmm0", "AVX-512DQ moves"),
        ("\tvxorps\t%zmm1, %zmm0, %zmm0", "AVX-512DQ logic"),
        ("\tvextractf64x2\t$1, %zmm0, %xmm0", "AVX-512DQ moves"),
        ("\tvpermpd\t$78, %ymm1, %ymm0", None),
        ("\tvpermps\t%ymm1, %ymm0, %ymm0", None),
        ("\tvmovdqu64\t%zmm1, (%rax)", None),
        ("\tvalignd\t$4, %zmm1, %zmm0, %zmm0", None),
        ("\tvpalignr\t$4, %ymm1, %ymm0, %ymm0", None),
        ("\tvpbroadcastb\t(%rax), %ymm0", None),
        ("\tvrndscaleps\t$1, %zmm1, %zmm0", None),
        ("\tvinsertf32x4\t$1, %xmm1, %zmm0, %zmm0", None),
        ("\tvpmovdb\t%zmm0, %xmm1 {%k1}", None),
        ("\tvaddss\t%xmm1, %xmm22, %xmm0 {%k1}", None),
        ("\tvpbroadcastd\t%ebx, %zmm0", None),
        ("\tvpbroadcastd\t%xmm1, %ymm0", None),
        ("\tvinsertf64x4\t$1, %ymm16, %zmm9, %zmm17", None),
        ("\tvpcmpeqd\t%zmm1, %zmm0, %k0", None),
        ("\tvpcmpeqb\t%ymm1, %ymm0, %ymm0", None),
        ("\tvpmovzxbw\t(%rax), %zmm0", "AVX-512BW arithmetic"),
        ("\tvpmovzxbd\t(%rax), %zmm0", None),
        ("\tvpmovzxwd\t(%rax), %zmm0", None),
        ("\tvxorps\t%xmm0, %xmm0, %xmm0", None),
        ("\tvpxord\t%zmm1, %zmm0, %zmm0", None),
        ("\tkmovw\t%eax, %k1", None),
        ("\tkortestw\t%k0, %k0", None),
        ("\tvextractf64x4\t$1, %zmm0, %ymm15", None),
        ("\tvfmadd231ps\t(%rax,%rcx,4){1to16}, %zmm16, %zmm31", None),
    ],
)
def test_instructions_that_knights_landing_lacks_are_told_from_those_it_has(
    line: str, extension: str | None
) -> None:
    assert beyond_knl(line) == extension


def run_elsewhere(processor: str, kernels: str, folder: Path) -> tuple[str, int]:
    """Compile and run for `processor`; returns the assembly and the lanes of a vector."""
    features = llvmlite.binding.get_host_cpu_features()
    missing = {name for name in INSTRUCTIONS[processor] if not features.get(name)}
    if platform.machine() != "x86_64" or missing:
        pytest.skip(
            f"this processor does not run code for {processor}: it lacks {missing or 'x86'}"
        )
    settings = {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(PACKAGE.parent),
    }
    subprocess.run(
        [sys.executable, "-W", "error", SCRIPT, kernels, folder],
        env={**os.environ, **settings},
        check=True,
    )
    with np.load(folder / "results.npz") as results:
        expected = results["expected"]
        assert np.abs(expected).max() > 1
        exact = kernels in (
            "product", "convolution", "convolution_in_order", "strassen", "depthwise"
        )  # fmt: skip
        share = 2e-5 if kernels == "winograd_in_order" else 2e-6  # F(4x4, 3x3) of more channels
        tolerance = 0 if exact else share * np.abs(expected).max()
        assert_allclose(results["found"], expected, rtol=0, atol=tolerance)
        return (folder / "assembly.txt").read_text(), int(results["lanes"])


def check_instructions(processor: str, assembly: str, registers: int = 24) -> None:
    """The code keeps to the processor and uses more of its registers, on AVX2 than half as many."""
    lines = assembly.splitlines()
    assert any(line.split()[:1] == ["vfmadd231ps"] for line in lines)
    if processor == "knl":
        assert len(set(re.findall(r"%zmm\d+", assembly))) > registers
        wrong = {line.strip(): found for line in lines if (found := beyond_knl(line))}
        assert wrong == {}
    else:
        assert len(set(re.findall(r"%ymm\d+", assembly))) > registers // 2
        assert "zmm" not in assembly
        assert not re.search(r"%xmm(1[6-9]|2\d|3[01])|%k\d", assembly)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["knl", pytest.param("haswell", marks=pytest.mark.slow)])
def test_products_for_another_processor_use_its_registers_and_are_right(
    processor: str, tmp_path: Path
) -> None:
    assembly, lanes = run_elsewhere(processor, "product", tmp_path)
    assert lanes == LANES[processor]
    check_instructions(processor, assembly)


def innermost_loops(assembly: str) -> list[list[str]]:
    """The instructions of every loop that has neither labels nor jumps inside."""
    loops: list[list[str]] = []
    label, body = "", []
    for line in map(str.strip, assembly.splitlines()):
        if re.fullmatch(r"[.\w$]+:", line):
            label, body = line[:-1], []
        elif re.match(r"j\w+\t", line):
            if line.split()[1] == label:
                loops.append(body)
            label, body = "", []
        else:
            body.append(line)
    return loops


def check_tiles(assembly: str, results: int, unrolled: int) -> None:
    """A loop of so many products keeps so many vectors of results in registers, and none spills."""
    loops = []
    for loop in innermost_loops(assembly):
        products = [line for line in loop if line.startswith("vfmadd231ps\t")]
        if len(products) == results * unrolled:
            assert len({line.split()[-1] for line in products}) == results
            assert not [line for line in loop if re.search(r"mm\d+, \S*\(|\(%rsp.*mm\d", line)], (
                loop
            )
            loops.append(loop)
    assert loops


def test_loops_are_found_and_their_labels_told_apart() -> None:
    text = ".L1:\n\tvaddps\ta, b\n.L2:\n\tincq\t%rax\n\tjne\t.L2\n\tdecq\t%rbx\n\tjne\t.L1\n"
    assert innermost_loops(text) == [["incq\t%rax"]]


@pytest.mark.parametrize("spilled", ["vmovups\t%zmm3, 64(%rsp)", "vmovups\t64(%rsp), %zmm3"])
def test_spilled_results_are_noticed(spilled: str) -> None:
    products = [f"\tvfmadd231ps\t%zmm30, %zmm31, %zmm{number}" for number in range(28)]
    text = "\n".join([".L1:", *products, "\tjne\t.L1"])
    check_tiles(text, 28, 1)
    for wrong in (text.replace("zmm7\n", "zmm6\n"), text.replace("\tjne", f"\t{spilled}\n\tjne")):
        with pytest.raises(AssertionError):
            check_tiles(wrong, 28, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("processor", "results"), [("knl", 28), ("haswell", 12)])
@pytest.mark.parametrize(
    "kernels",
    ["convolution", "strassen", "winograd"],
)
def test_convolutions_for_another_processor_keep_their_tiles_in_its_registers(
    kernels: str, processor: str, results: int, tmp_path: Path
) -> None:
    assembly, lanes = run_elsewhere(processor, kernels, tmp_path)
    assert lanes == LANES[processor]
    check_instructions(processor, assembly)
    for unrolled in (1, 4):  # forward and backward-data, backward-weights
        check_tiles(assembly, results, unrolled)


@pytest.mark.slow
@pytest.mark.parametrize(("processor", "results"), [("knl", 28), ("haswell", 12)])
@pytest.mark.parametrize("kernels", ["convolution_in_order", "winograd_in_order"])
def test_convolutions_of_channels_for_another_processor_keep_theirs(
    kernels: str, processor: str, results: int, tmp_path: Path
) -> None:
    assembly, lanes = run_elsewhere(processor, kernels, tmp_path)
    assert lanes == LANES[processor]
    check_instructions(processor, assembly)
    if kernels == "convolution_in_order":  # the other's tiles are the same, its transforms similar
        check_tiles(assembly, results, 1)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["knl", "haswell"])
def test_lenet_for_another_processor_equals_the_reference(processor: str, tmp_path: Path) -> None:
    assembly, lanes = run_elsewhere(processor, "lenet", tmp_path)
    assert lanes == LANES[processor]
    assert len(re.findall(r"^\S*_loop\S*:$", assembly, re.MULTILINE)) > 20
    check_instructions(processor, assembly)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["knl", "haswell"])
@pytest.mark.parametrize("kernels", ["pooling", "depthwise", "layers"])
def test_kernels_for_another_processor_equal_the_reference(
    kernels: str, processor: str, tmp_path: Path
) -> None:
    assembly, lanes = run_elsewhere(processor, kernels, tmp_path)
    assert lanes == LANES[processor]
    check_instructions(processor, assembly, registers=16)


@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [
        ("knl", None, True),
        ("knl", "", True),
        ("haswell", "", False),
        ("generic", "", False),
        ("generic", "+avx2,+avx512f", True),
        ("skylake-avx512", "-avx512f", False),
    ],
)
def test_lanes_follow_numbas_settings(
    name: str, features: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", name)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", features)
    assert compiler.target_has_avx512() is expected


@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [
        ("knl", None, False),
        ("knl", "", False),
        ("haswell", "", False),
        ("skylake-avx512", "", True),
        ("generic", "+avx512f,+avx512bw,+avx512vl", True),
        ("generic", "+avx512f,+avx512bw", False),
        ("skylake-avx512", "-avx512bw", False),
    ],
)
def test_bytes_are_selected_where_the_settings_allow_it(
    name: str, features: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", name)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", features)
    assert compiler.target_selects_bytes() is expected


@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [
        ("knl", "", False),
        ("skylake-avx512", "", False),
        ("znver4", "", True),
        ("sapphirerapids", None, True),
        ("generic", "+avx512f,+avx512bf16", True),
        ("cooperlake", "-avx512bf16", False),
    ],
)
def test_pairs_of_bfloat16_are_multiplied_where_the_settings_allow_it(
    name: str, features: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", name)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", features)
    assert compiler.target_has_bfloat16() is expected


def test_pairs_of_bfloat16_are_multiplied_as_the_host_can_without_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", None)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", None)
    for has in (True, False):
        features = {"avx512f": True, "avx512bf16": has}
        monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda it=features: it)
        assert compiler.target_has_bfloat16() is has


@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [
        ("cooperlake", "", False),
        ("znver4", "", False),
        ("sapphirerapids", None, True),
        ("graniterapids", "", True),
        ("generic", "+amx-tile,+amx-bf16", True),
        ("generic", "+amx-bf16", False),
        ("sapphirerapids", "-amx-bf16", False),
        ("sapphirerapids", "-amx-tile", False),
    ],
)
def test_tiles_are_multiplied_where_the_settings_allow_it(
    name: str, features: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", name)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", features)
    assert compiler.target_has_amx() is expected


def test_tiles_are_multiplied_as_the_host_can_without_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", None)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", None)
    for has in (True, False):
        features = {"amx-tile": True, "amx-bf16": has}
        monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda it=features: it)
        assert compiler.target_has_amx() is has


@pytest.mark.parametrize(
    ("name", "expected"), [("znver4", True), ("cooperlake", True), ("emeraldrapids", False)]
)
def test_pairs_are_left_to_tiles_by_processors_that_have_them(
    name: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "target_has_amx", lambda: False)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", name)
    assert compiler.target_sums_pairs_faster() is expected
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", None)
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_name", lambda: name)
    assert compiler.target_sums_pairs_faster() is expected
    monkeypatch.setattr(compiler, "target_has_amx", lambda: True)
    assert not compiler.target_sums_pairs_faster()


def test_lanes_are_those_of_the_host_without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", None)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", None)
    for has in (True, False):
        features = {"avx2": True, "avx512f": has}
        monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda it=features: it)
        assert compiler.target_has_avx512() is has


def test_bytes_are_selected_as_the_host_can_without_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CPU_NAME", None)
    monkeypatch.setattr(compiler.SETTINGS, "CPU_FEATURES", None)
    for has in (True, False):
        features = {"avx512f": True, "avx512bw": True, "avx512vl": has}
        monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda it=features: it)
        assert compiler.target_selects_bytes() is has


def test_kernels_are_cached_below_the_folder_that_the_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CACHE_DIR", "")
    default = compiler.cache_folder()
    assert default.parent == Path.home() / ".cache" / "knltrain" / "kernels"
    monkeypatch.setattr(compiler.SETTINGS, "CACHE_DIR", str(tmp_path))
    assert compiler.cache_folder() == tmp_path / default.name


def test_kernels_of_a_user_without_home_are_cached_among_temporary_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    monkeypatch.setattr(compiler.SETTINGS, "CACHE_DIR", "")
    name = f"knltrain-kernels-{os.geteuid()}"
    assert compiler.cache_folder().parent == Path(tempfile.gettempdir()) / name
    monkeypatch.setattr(compiler.SETTINGS, "CACHE_DIR", "~nobody-of-that-name/kernels")
    with pytest.raises(ValueError, match="NUMBA_CACHE_DIR=~nobody-of-that-name/kernels: expected"):
        compiler.cache_folder()


def test_kernels_release_the_lock_and_divide_as_ieee_says() -> None:
    @compiler.kernel
    def quotient(a: float, b: float) -> float:
        return a / b

    assert quotient(1.0, 0.0) == np.inf
    assert quotient.targetoptions["nogil"]  # type: ignore[attr-defined]
    assert os.environ.get("NUMBA_CACHE_DIR", "") == compiler.SETTINGS.CACHE_DIR


def test_locks_are_looked_for_where_the_kernels_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler.SETTINGS, "CACHE_DIR", str(tmp_path))
    assert compiler.cache_has_locks()
    (used,) = tmp_path.glob("*/locks")

    def none(descriptor: int, *_: object) -> None:
        assert os.fstat(descriptor).st_ino == used.stat().st_ino
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", none)
    assert not compiler.cache_has_locks()


def test_kernels_of_other_versions_of_what_compiles_them_lie_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = {compiler.cache_folder()}
    for module in (numba, llvmlite, np):
        monkeypatch.setattr(module, "__version__", "0")
        folders.add(compiler.cache_folder())
    assert len(folders) == 4


def test_kernels_of_one_factory_have_names_of_their_own() -> None:
    def make(number: int) -> Any:
        @compiler.kernel
        def product(a: int) -> int:
            return a * number

        return product

    assert make(2).__qualname__ == make(2).__qualname__
    assert make(2).__qualname__ != make(3).__qualname__
    assert make(2).__name__ == "product"


def test_kernels_run_uncached_where_no_cache_can_be_written(tmp_path: Path) -> None:
    occupied = tmp_path / "a file where the folder should be"
    occupied.write_text("")
    code = """
import numpy as np
from vectorized_ops.numba.rectifier import relu_forward
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.compiling.compiler import cache_is_writable
values = activations((16, 4)); values[...] = -1
relu_forward(values, values)
print(cache_is_writable(), values.max())
"""
    environment = {
        **os.environ, "NUMBA_CACHE_DIR": str(occupied), "PYTHONPATH": str(PACKAGE.parent),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "0.0"]
    assert done.stderr.count("kernels are not shared with other processes") == 1
