"""Chooses the number format of an encoder from the setting, the processor and the model.

The fingerprint does not include the precision: vectors of all precisions are compared with each other
(docs/decisions/0011).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Precision = Literal["auto", "fp32", "bf16", "int8"]

BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16"})
"""Processor flags for bfloat16."""
FAST_BFLOAT16 = (frozenset({"amx_bf16"}), frozenset({"avx512_bf16", "AuthenticAMD"}))
"""Sets of words of /proc/cpuinfo of which one is needed for bfloat16 to be faster than float32. On an Intel processor
with avx512_bf16 and without AMX, it took one and a half times as long (docs/decisions/0045)."""
VNNI = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
"""Processor flags for sums of products of unsigned with signed 8-bit integers."""
INT8 = VNNI | {"avx2"}
"""Processor flags for int8. With AVX2 alone a query takes 40 % less time than in float32 (docs/decisions/0055)."""


@dataclass(frozen=True)
class Precisions:
    """The precisions of documents and of queries: `fp32`, `bf16` or `int8`."""

    documents: str
    queries: str


def choose_precisions(wanted: Precision, flags: frozenset[str], int8_is_sound: bool) -> Precisions:
    """Return the precisions for a setting on a processor with these flags.

    int8_is_sound: whether the int8 vectors of the model are close to its float32 vectors. `auto` is the fastest choice
    that does not change rankings: bfloat16 for documents, int8 for queries, and float32 where these are not faster or
    the model does not support them. `bf16` falls back to float32 where the processor lacks it; `int8` never does.
    """
    if wanted not in ("auto", "bf16"):
        return Precisions(wanted, wanted)
    documents = "bf16" if uses_bfloat16(wanted, flags) else "fp32"
    return Precisions(documents, "int8" if wanted == "auto" and flags & INT8 and int8_is_sound else "fp32")


def has_unsigned_weights(flags: frozenset[str]) -> bool:
    """Return whether int8 weights are unsigned on a processor with these flags.

    The runtime's kernel for AVX2 and signed weights adds two products in 16 bits, where large ones saturate. Its kernel
    for unsigned weights takes as long and is exact. With VNNI the kernel for signed weights is exact and faster.
    """
    return "avx2" in flags and not flags & VNNI


def uses_bfloat16(wanted: Precision, flags: frozenset[str]) -> bool:
    """Return whether documents are encoded in bfloat16 for a setting: `auto` where it is fast, `bf16` where it runs."""
    if wanted == "auto":
        return any(needed <= flags for needed in FAST_BFLOAT16)
    return wanted == "bf16" and bool(flags & BFLOAT16)


def cores() -> int:
    """Return the number of cores that this process may use; outside Linux, those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_flags() -> frozenset[str]:
    """Return the words of /proc/cpuinfo: the processor's flags and its maker; an empty set outside Linux."""
    path = Path("/proc/cpuinfo")
    return frozenset(path.read_text().split()) if path.is_file() else frozenset()
