"""Writes the output of commands: data to stdout, progress and messages to stderr. Control characters are removed.

The functions that write tables and marked text import rich, so that other commands start without it.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unicodedata import category

import orjson

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text

PIPE_COLUMNS = 200
"""Width of a table when stdout is not a terminal."""
SNIPPET_CHARACTERS = 240
PREVIEW_CHARACTERS = 80
"""Characters of a text in a table."""
MAX_FAULTS = 20
"""Faults that are written; the others are counted."""


def data(value: Any, on_one_line: bool = False) -> None:
    """Write a value to stdout as JSON."""
    sys.stdout.write(orjson.dumps(value, option=0 if on_one_line else orjson.OPT_INDENT_2).decode() + "\n")
    sys.stdout.flush()


def line(text: str) -> None:
    """Write a line to stdout."""
    print(plain(text))


def paragraphs(text: str) -> None:
    """Write a text to stdout, line by line."""
    for one in text.splitlines():
        line(one)


def notice(text: str) -> None:
    """Write a line to stderr."""
    print(plain(text), file=sys.stderr)


def plain(value: Any) -> str:
    """Return text on one line. White space becomes a blank, and control characters U+FFFD."""
    return "".join(" " if c.isspace() else "\ufffd" if category(c) in ("Cc", "Cs") else c for c in str(value))


def figure(value: Any) -> str:
    """Return a value as a table cell; `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        return plain(orjson.dumps(value).decode())
    return f"{value:.4f}" if isinstance(value, float) else plain(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to stdout."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name)
    for row in rows:
        grid.add_row(*(Text(figure(cell)) for cell in row))
    stdout().print(grid)


def stdout() -> "Console":
    """Return a console on stdout."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)


def stderr() -> "Console":
    """Return a console on stderr."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def progress(label: str, total: float | None = None) -> Iterator["Bar"]:
    """Yield a progress bar on stderr. It is visible only on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield Bar(bar, bar.add_task(label, total=total))


class Bar:
    """A line of progress."""

    def __init__(self, bar: "Progress", task: "TaskID") -> None:
        self._bar = bar
        self._task = task

    def show(self, label: str, done: float, total: float | None) -> None:
        """Update the progress; total is None if it is unknown."""
        self._bar.update(self._task, description=plain(label), completed=done, total=total or None)


def faults(unit: str, found: Sequence[Mapping[str, Any]], count: int) -> None:
    """Write the first MAX_FAULTS of `count` faults to stderr, each with its line or item number."""
    for fault in found[:MAX_FAULTS]:
        name = f" ({fault['id']})" if fault.get("id") else ""
        notice(f"{unit} {fault.get(unit, '?')}{name}: {fault.get('code', 'refused')}: {fault.get('detail', '')}")
    if count > MAX_FAULTS:
        notice(f"and {count - MAX_FAULTS} more")


def located_faults(found: Sequence[Mapping[str, Any]], count: int) -> None:
    """Write the first MAX_FAULTS of `count` faults to stderr, each with its file and its line or item."""
    for fault in found[:MAX_FAULTS]:
        unit = next((unit for unit in ("line", "item") if unit in fault), None)
        place = f"{fault['file']} {unit} {fault[unit]}" if unit else str(fault["file"])
        name = f" ({fault['id']})" if fault.get("id") else ""
        notice(f"{place}{name}: {fault.get('code', 'refused')}: {fault.get('detail', '')}")
    if count > MAX_FAULTS:
        notice(f"and {count - MAX_FAULTS} more")


def hits(answer: Mapping[str, Any]) -> None:
    """Write the hits of a search, after its corrections and the closest sentence, and before its facets."""
    from rich.text import Text

    console = stdout()
    for one in answer.get("corrections", []):
        line(f"{one['to']} instead of {one['from']}")
    closest = answer.get("answer")
    if closest:
        line(f"Closest sentence, in {closest['id']}, weight {figure(closest['weight'])}: {closest['text'].strip()}")
    for hit in answer["hits"]:
        head = Text(f"{hit['position']:>3}  ", "bold")
        head.append(plain(hit.get("title") or hit["id"]), "bold")
        head.append(f"  {plain(hit['id'])}  weight {figure(hit.get('score'))}  logit {figure(hit.get('logit'))}", "dim")
        if hit.get("pinned"):
            head.append("  pinned")
        console.print(head, soft_wrap=True)
        if hit.get("text"):
            console.print(Text("     ") + snippet(hit), soft_wrap=True)
        if hit.get("explain"):
            parts = {name: part for name, part in hit["explain"].get("parts", {}).items() if part}
            console.print(Text("     " + "  ".join(f"{plain(name)} {figure(part)}" for name, part in parts.items())))
    for field, found in answer.get("facets", {}).items():
        line(f"{field}: " + ", ".join(f"{value} ({count})" for value, count in found["values"].items()))
    predictions(answer)
    summary(answer)


def predictions(answer: Mapping[str, Any]) -> None:
    """Write the predicted values of metadata fields, a line for each field."""
    for field, found in answer.get("predictions", {}).items():
        if found["type"] == "number":
            interval = " to ".join(figure(found["quantiles"][level]) for level in ("0.1", "0.9"))
            deviation = figure(found["standard_deviation"])
            values = f"{figure(found['mean'])} (standard deviation {deviation}, 80% {interval})"
        else:
            best = found["distribution"][:5]
            values = ", ".join(f"{figure(one['value'])} {one['weight']:.0%}" for one in best) or "no candidate has it"
        size = found["effective_sample_size"]
        line(f"{field}: {values}; coverage {found['coverage']:.0%}, effective {size:.1f} documents")


def summary(answer: Mapping[str, Any]) -> None:
    """Write the number of hits, the model, the weight of no answer and the time of a search to stderr."""
    model = answer.get("model", {})
    null_weight = answer.get("attention", {}).get("null_weight")
    more = "; more with --offset" if answer.get("page", {}).get("has_more") else ""
    count = len(answer["hits"])
    with_words = "" if answer.get("everything") else " with a word of the query"
    matching = f"; documents{with_words}: {answer['matching']}" if "matching" in answer else ""
    notice(
        f"{count} hit{'' if count == 1 else 's'}{matching}{more}; model {figure(model.get('version'))}; "
        f"weight of no answer {figure(null_weight)}; {answer.get('took_ms', 0):.1f} ms"
    )
    if answer.get("explored"):
        notice("explored: the order of the hits is sampled from the attention")
    for reason in answer.get("degraded") or []:
        notice(f"degraded: {reason}")


def snippet(hit: Mapping[str, Any]) -> "Text":
    """Return a part of a hit's text that starts shortly before the first highlight, with marked highlights."""
    from rich.text import Text

    marks = [mark for mark in hit.get("highlights") or [] if mark.get("field") == "text"]
    start = max(0, min((mark["start"] for mark in marks), default=0) - SNIPPET_CHARACTERS // 4)
    text = str(hit["text"])
    found = Text(plain(text[start : start + SNIPPET_CHARACTERS]))
    for mark in marks:
        found.stylize("bold yellow", max(0, mark["start"] - start), max(0, mark["end"] - start))
    return found
