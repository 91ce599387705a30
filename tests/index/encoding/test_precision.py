"""`auto` chooses the fastest precision that processor and model support; a named precision is used."""

import pytest

from index.encoding.precision import Precisions, choose_precisions, cores, processor_flags

SERVER = frozenset({"GenuineIntel", "fpu", "avx2", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"})
AMD_SERVER = frozenset({"AuthenticAMD", "fpu", "avx2", "avx512_bf16", "avx512_vnni"})
WITHOUT_AMX = SERVER - {"amx_bf16", "amx_int8"}
LAPTOP = frozenset({"fpu", "avx2", "avx_vnni"})
OLD = frozenset({"fpu", "avx2"})
OTHER = frozenset({"fp", "asimd", "asimddp"})


@pytest.mark.parametrize(
    ("flags", "documents", "queries"),
    [
        (SERVER, "bf16", "int8"),
        (AMD_SERVER, "bf16", "int8"),
        (WITHOUT_AMX, "fp32", "int8"),
        (LAPTOP, "fp32", "int8"),
        (OLD, "fp32", "int8"),
        (OTHER, "fp32", "fp32"),
    ],
)
def test_auto_chooses_by_processor_flags(flags: frozenset[str], documents: str, queries: str) -> None:
    assert choose_precisions("auto", flags, int8_is_sound=True) == Precisions(documents, queries)


def test_auto_uses_int8_only_for_models_with_accurate_int8() -> None:
    assert choose_precisions("auto", SERVER, int8_is_sound=False) == Precisions("bf16", "fp32")


def test_a_named_precision_is_used() -> None:
    assert choose_precisions("fp32", SERVER, int8_is_sound=True) == Precisions("fp32", "fp32")
    assert choose_precisions("int8", OTHER, int8_is_sound=False) == Precisions("int8", "int8")
    assert choose_precisions("bf16", SERVER, int8_is_sound=True) == Precisions("bf16", "fp32")


def test_bfloat16_is_used_on_request_where_it_is_slow() -> None:
    assert choose_precisions("bf16", WITHOUT_AMX, int8_is_sound=True) == Precisions("bf16", "fp32")


def test_bfloat16_falls_back_to_float32() -> None:
    assert choose_precisions("bf16", LAPTOP, int8_is_sound=True) == Precisions("fp32", "fp32")


def test_processor_flags_can_be_read_on_this_machine() -> None:
    assert isinstance(processor_flags(), frozenset)


def test_the_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {4, 5}, raising=False)
    assert cores() == 2
    monkeypatch.delattr("os.sched_getaffinity")
    assert cores() == 64, "a system without affinity"
