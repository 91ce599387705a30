"""Small SVG plots: one panel per measure, one dot per size, sizes on a logarithmic axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, HEIGHT, MARGIN = 260, 180, 46
TOP, INSET = 46, 18
COLUMNS = 3
STYLE = (
    "text{font:11px sans-serif;fill:#333}.name{font-weight:bold}"
    ".axis{stroke:#bbb;fill:none}.line{stroke:#2563a8;stroke-width:2;fill:none}.dot{fill:#2563a8}"
)


@dataclass(frozen=True)
class Panel:
    """A measure and its title."""

    measure: str
    title: str


GROWTH = (
    Panel("build_seconds", "seconds to build"),
    Panel("build_cpu_seconds", "processor seconds to build"),
    Panel("start_seconds", "seconds to start"),
    Panel("disk_bytes_per_key", "bytes per key on disk"),
    Panel("memory_bytes_per_key", "bytes per key in memory"),
    Panel("recall", "recall@100"),
    Panel("p50_ms", "p50 of candidates, ms"),
    Panel("p50_cpu_ms", "p50 of candidates, processor ms"),
    Panel("p99_ms", "p99 of candidates, ms"),
    Panel("queries_per_second", "queries per second, 2 threads"),
    Panel("insert_ms", "insert to visible, ms"),
    Panel("fold_seconds", "seconds to fold a tail in"),
    Panel("compact_seconds", "seconds to compact"),
    Panel("compact_wait_ms", "longest write meanwhile, ms"),
)
"""The panels of docs/growth.svg: measures of benchmarks/growth.py."""


def draw(axis: str, sizes: Sequence[int], figures: Sequence[Mapping[str, Any]], panels: Sequence[Panel]) -> str:
    """Return an SVG document with a panel per measure. `figures` has an entry per size."""
    rows = -(-len(panels) // COLUMNS)
    drawn = [
        f'<g transform="translate({number % COLUMNS * WIDTH},{number // COLUMNS * HEIGHT})">'
        + _panel(axis, sizes, [float(one[panel.measure]) for one in figures], panel.title)
        + "</g>"
        for number, panel in enumerate(panels)
    ]
    frame = f'width="{COLUMNS * WIDTH}" height="{rows * HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {frame}><style>{STYLE}</style>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>\n"])


def _panel(axis: str, sizes: Sequence[int], values: Sequence[float], title: str) -> str:
    low, high = math.log10(min(sizes)), math.log10(max(sizes))
    top = max(values) or 1.0
    inner_width, inner_height = WIDTH - MARGIN - 24, HEIGHT - TOP - 40
    base, width = TOP + inner_height, inner_width - 2 * INSET
    share = [(math.log10(size) - low) / (high - low) if high > low else 0.5 for size in sizes]
    across = [MARGIN + INSET + width * one for one in share]
    points = [(x, base - inner_height * value / top) for x, value in zip(across, values, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [
        f'<text class="name" x="{MARGIN}" y="16">{escape(title)}</text>',
        f'<path class="axis" d="M{MARGIN},{TOP - 12} V{base} H{MARGIN + inner_width}"/>',
        f'<polyline class="line" points="{path}"/>',
        f'<text x="{MARGIN - 6}" y="{base}" text-anchor="end">0</text>',
        f'<text x="{WIDTH - 20}" y="{base + 28}" text-anchor="end">{escape(axis)}</text>',
    ]
    for (x, y), size, value in zip(points, sizes, values, strict=True):
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        parts.append(f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="middle">{value:g}</text>')
        parts.append(f'<text x="{x:.1f}" y="{base + 14}" text-anchor="middle">{short(size)}</text>')
    return "".join(parts)


def short(size: int) -> str:
    """Return a number in short form: 10k, 1M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{name}"
    return str(size)
