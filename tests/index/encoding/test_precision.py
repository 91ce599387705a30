"""Precisions: the fastest that a processor has and a model bears, and what is asked for by name."""

import pytest

from index.encoding.precision import Precisions, choose_precisions, processor_flags

SERVER = frozenset({"fpu", "avx2", "avx512_bf16", "avx512_vnni"})
LAPTOP = frozenset({"fpu", "avx2", "avx_vnni"})
OLD = frozenset({"fpu", "avx2"})


@pytest.mark.parametrize(
    ("flags", "documents", "queries"), [(SERVER, "bf16", "int8"), (LAPTOP, "fp32", "int8"), (OLD, "fp32", "fp32")]
)
def test_auto_takes_what_the_processor_multiplies(flags: frozenset[str], documents: str, queries: str) -> None:
    assert choose_precisions("auto", flags, int8_is_sound=True) == Precisions(documents, queries)


def test_auto_leaves_int8_to_models_that_bear_it() -> None:
    assert choose_precisions("auto", SERVER, int8_is_sound=False) == Precisions("bf16", "fp32")


def test_a_precision_that_is_asked_for_is_used() -> None:
    assert choose_precisions("fp32", SERVER, int8_is_sound=True) == Precisions("fp32", "fp32")
    assert choose_precisions("int8", OLD, int8_is_sound=False) == Precisions("int8", "int8")
    assert choose_precisions("bf16", SERVER, int8_is_sound=True) == Precisions("bf16", "fp32")


def test_bfloat16_is_float32_on_a_processor_without_it() -> None:
    assert choose_precisions("bf16", LAPTOP, int8_is_sound=True) == Precisions("fp32", "fp32")


def test_the_processor_here_is_asked_without_failing() -> None:
    assert isinstance(processor_flags(), frozenset)
