"""What people see: data on stdout, progress and complaints on stderr; no text from outside can drive the terminal."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unicodedata import category

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 200
"""Width of a table that is not written to a terminal."""
SNIPPET_CHARACTERS = 240
MOST_FAULTS = 20
"""Faults told one by one; the rest are counted."""


def data(value: Any, on_one_line: bool = False) -> None:
    """Write a value to stdout as JSON."""
    sys.stdout.write(orjson.dumps(value, option=0 if on_one_line else orjson.OPT_INDENT_2).decode() + "\n")
    sys.stdout.flush()


def line(text: str) -> None:
    """Write a line to stdout."""
    print(plain(text))


def notice(text: str) -> None:
    """Write a line to stderr."""
    print(plain(text), file=sys.stderr)


def plain(value: Any) -> str:
    """Return text on one line, character for character, without those that drive a terminal."""
    return "".join(" " if one.isspace() else "\ufffd" if category(one) in ("Cc", "Cs") else one for one in str(value))


def figure(value: Any) -> str:
    """Return a value as a table shows it; `-` for none."""
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        return plain(orjson.dumps(value).decode())
    return f"{value:.4f}" if isinstance(value, float) else plain(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to stdout."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name)
    for row in rows:
        grid.add_row(*(Text(figure(cell)) for cell in row))
    stdout().print(grid)


def stdout() -> Console:
    """Return a console on stdout."""
    return Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)


def stderr() -> Console:
    """Return a console on stderr."""
    return Console(stderr=True)


@contextmanager
def progress(label: str, total: float | None = None) -> Iterator["Bar"]:
    """Give a progress bar on stderr, shown only on a terminal."""
    console = stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield Bar(bar, bar.add_task(label, total=total))


class Bar:
    """One line of progress."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def show(self, label: str, done: float, total: float | None) -> None:
        """Say how far the work is; no total means that nobody knows yet."""
        self._bar.update(self._task, description=plain(label), completed=done, total=total or None)


def faults(unit: str, found: Sequence[Mapping[str, Any]], count: int) -> None:
    """Write the first of `count` faults to stderr, each with its place in the file."""
    for one in found[:MOST_FAULTS]:
        name = f" ({one['id']})" if one.get("id") else ""
        notice(f"{unit} {one.get(unit, '?')}{name}: {one.get('code', 'refused')}: {one.get('detail', '')}")
    if count > MOST_FAULTS:
        notice(f"and {count - MOST_FAULTS} more")


def hits(answer: Mapping[str, Any]) -> None:
    """Write the hits of a search."""
    console = stdout()
    for hit in answer["hits"]:
        head = Text(f"{hit['position']:>3}  ", "bold")
        head.append(plain(hit.get("title") or hit["id"]), "bold")
        head.append(f"  {plain(hit['id'])}  weight {figure(hit.get('score'))}  logit {figure(hit.get('logit'))}", "dim")
        console.print(head, soft_wrap=True)
        if hit.get("text"):
            console.print(Text("     ") + snippet(hit), soft_wrap=True)
        if hit.get("explain"):
            parts = {name: part for name, part in hit["explain"].get("parts", {}).items() if part}
            console.print(Text("     " + "  ".join(f"{plain(name)} {figure(part)}" for name, part in parts.items())))
    predictions(answer)
    summary(answer)


def predictions(answer: Mapping[str, Any]) -> None:
    """Write what the candidates of a search say about metadata fields, a line for each; nothing if nobody asked."""
    for field, one in answer.get("predictions", {}).items():
        if one["type"] == "number":
            between = " to ".join(figure(one["quantiles"][level]) for level in ("0.1", "0.9"))
            told = f"{figure(one['mean'])} (standard deviation {figure(one['standard_deviation'])}, 80% {between})"
        else:
            best = one["distribution"][:5]
            told = ", ".join(f"{figure(each['value'])} {each['weight']:.0%}" for each in best) or "no candidate has it"
        line(f"{field}: {told}; coverage {one['coverage']:.0%}, effective {one['effective_sample_size']:.1f} documents")


def summary(answer: Mapping[str, Any]) -> None:
    """Write what there is to say about a search as a whole, to stderr."""
    model = answer.get("model", {})
    null_weight = answer.get("attention", {}).get("null_weight")
    more = "; more with --offset" if answer.get("page", {}).get("has_more") else ""
    count = len(answer["hits"])
    notice(
        f"{count} hit{'' if count == 1 else 's'}{more}; model {figure(model.get('version'))}; "
        f"weight of no good answer {figure(null_weight)}; {answer.get('took_ms', 0):.1f} ms"
    )
    for reason in answer.get("degraded") or []:
        notice(f"degraded: {reason}")


def snippet(hit: Mapping[str, Any]) -> Text:
    """Return the beginning of a hit's text, from shortly before its first highlight, highlights marked."""
    marks = [one for one in hit.get("highlights") or [] if one.get("field") == "text"]
    start = max(0, min((one["start"] for one in marks), default=0) - SNIPPET_CHARACTERS // 4)
    text = str(hit["text"])
    found = Text(plain(text[start : start + SNIPPET_CHARACTERS]))
    for one in marks:
        found.stylize("bold yellow", max(0, one["start"] - start), max(0, one["end"] - start))
    return found


def comparisons(found: Iterable[Mapping[str, Any]], a: str, b: str) -> None:
    """Write paired comparisons of two models, a line for each measure."""
    rows = [
        (
            one["measure"],
            one["a"],
            one["b"],
            f"{one['difference']:+.4f}",
            f"[{one['low']:+.4f}, {one['high']:+.4f}]",
            "<0.0001" if one["p_value"] < 0.0001 else one["p_value"],
            one["queries"],
        )
        for one in found
    ]
    table(("measure", a, b, "difference", "95% interval", "p", "queries"), rows)


def recipe(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on how a model was fitted; nothing of what its report does not have."""
    chosen, hop, examined = (report.get(name) or {} for name in ("recipe", "hop", "examination"))
    if chosen:
        told = ", ".join(f"{name.replace('_', ' ')} {chosen[name]}" for name in ("epochs", "reading") if name in chosen)
        took = f" in {report['train_seconds']:.1f} s" if "train_seconds" in report else ""
        yield f"recipe {chosen.get('recipe')}" + (f" ({told})" if told else "") + took
    if skipped := chosen.get("skipped"):
        yield f"beyond the budget: {'; '.join(skipped)}"
    if examined:
        yield f"examination of places: {examined.get('method')}"
    if hop.get("chosen"):
        yield f"second hop: {hop['chosen']}"
    if asked := report.get("held_out_queries"):
        yield f"held-out queries: {asked.get('test', 0)} of the test, {asked.get('cross_fitted', 0)} cross-fitted"
    if chosen.get("optimism"):
        yield f"taken off for having chosen on them: {chosen['optimism']:.4f}"
