"""Markdown tables and number formats of the documentation. A figure that is missing is printed as `-`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NONE = "-"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def at(figures: Any, *path: str) -> Any:
    """Return the figure at a path of keys, None if it is missing."""
    for key in path:
        if not isinstance(figures, Mapping) or key not in figures:
            return None
        figures = figures[key]
    return figures


def share(value: float | None, digits: int = 3) -> str:
    """Return a number of at most 1 without its leading zero: `.713`; 1 is `1.0`."""
    if value is None:
        return NONE
    return "1.0" if round(value, digits) == 1 else f"{value:.{digits}f}".replace("0.", ".", 1)


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with this many decimals and separated thousands."""
    return NONE if value is None else f"{value:,.{digits}f}"


def significant(value: float | None) -> str:
    """Return a number with three significant digits, and with separated thousands."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def points(gap: Sequence[float] | None) -> str:
    """Return a difference with its interval, in points: `+2.7 [+2.0, +3.5]`; `0` if nothing differs."""
    if gap is not None and not any(gap):
        return "0"
    return NONE if gap is None else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * value for value in gap))


def together(*values: str) -> str:
    """Return values separated by `; `, or `-` if all are missing."""
    return NONE if set(values) == {NONE} else "; ".join(values)


def bold(text: str, when: bool = True) -> str:
    """Return the text in bold where the condition holds."""
    return f"**{text}**" if when and text != NONE else text
