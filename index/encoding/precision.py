"""Which numbers an encoder computes with: what is wished, what the processor multiplies, what the model bears.

A fingerprint is of the weights alone: vectors of all precisions are compared with each other (docs/decisions/0011).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Precision = Literal["auto", "fp32", "bf16", "int8"]

BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16"})
INT8 = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
"""Without these, sums of int8 products saturate or are no faster."""


@dataclass(frozen=True)
class Precisions:
    """What documents and queries are encoded with: `fp32`, `bf16` or `int8` each."""

    documents: str
    queries: str


def choose_precisions(wanted: Precision, flags: frozenset[str], int8_is_sound: bool) -> Precisions:
    """Return the precisions of a wish on a processor; int8_is_sound says that the model's int8 is near its float32.

    `auto` is the fastest whose ranking does not differ: documents bfloat16, queries int8. What the processor lacks is
    float32 instead; int8 that is asked for by name is used whatever it does.
    """
    half = "bf16" if flags & BFLOAT16 else "fp32"
    if wanted == "auto":
        return Precisions(half, "int8" if flags & INT8 and int8_is_sound else "fp32")
    if wanted == "bf16":
        return Precisions(half, "fp32")
    return Precisions(wanted, wanted)


def processor_flags() -> frozenset[str]:
    """Return the names of the processor's instruction sets as Linux has them; nothing elsewhere."""
    told = Path("/proc/cpuinfo")
    return frozenset(told.read_text().split()) if told.is_file() else frozenset()
