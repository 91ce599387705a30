"""Writes the reports of models: the fit, the measures, the decision of the gate."""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from service.cli import show

MOST_PREFERENCES = 5
"""Effects of fields that are written, at most: the largest."""
SHOWN_NAMES = {"birth": "untrained", "initial": "initial weights"}
"""Stored name of a kind or a recipe -> shown name. A head of the recipe `initial` may have trees, priors or a hop."""


def shown_name(name: str | None) -> str | None:
    """Return a stored kind or recipe as it is shown."""
    return SHOWN_NAMES.get(name or "", name)


def fit(report: Mapping[str, Any]) -> None:
    """Write the report of a fit: the recipe, and the comparison with the champion on held-out queries."""
    for line in recipe(report):
        show.line(line)
    if held_out := report.get("held_out"):
        comparisons([{"measure": name} | value for name, value in held_out.items()], "champion", "challenger")


def recipe(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about the fit of a model. Reports of earlier versions have fewer fields, and give fewer lines."""
    parts = ("recipe", "head", "trees", "priors", "context", "examination")
    chosen, head, trees, priors, context, examination = (report.get(name) or {} for name in parts)
    if chosen:
        labels = {"epochs": "epochs", "reading": "click interpretation"}
        facts = ", ".join(f"{label} {chosen[name]}" for name, label in labels.items() if name in chosen)
        took = f" in {report['train_seconds']:.1f} s" if "train_seconds" in report else ""
        yield f"recipe {shown_name(chosen.get('recipe'))}" + (f" ({facts})" if facts else "") + took
    if skipped := chosen.get("skipped"):
        yield f"recipes skipped because of the budget: {'; '.join(skipped)}"
    if examination:
        yield f"estimate of position bias: {examination.get('method')}"
    if head.get("hop"):
        yield f"second hop: {head['hop']}"
    if trees.get("chosen"):
        yield f"trees: {trees['chosen']}"
    if priors.get("chosen"):
        yield f"documents with a prior: {priors['documents']}"
    if fields := priors.get("fields"):
        yield f"preferred on any query: {'; '.join(map(preference, fields[:MOST_PREFERENCES]))}"
    if context.get("chosen"):
        yield f"context: {context['chosen']}"
    if counts := report.get("held_out_queries"):
        yield f"held-out queries: {counts.get('test', 0)} test, {counts.get('cross_fitted', 0)} cross-fitted"
    held_out = report.get("held_out") or {}
    lowered = [f"{name} {one['subtracted']:.4f}" for name, one in held_out.items() if one.get("subtracted")]
    if lowered:
        yield f"subtracted for choices on the same queries: {', '.join(lowered)}"


def preference(effect: Mapping[str, Any]) -> str:
    """Return what people prefer by a field, with the difference of logits: `brand oak +0.30`."""
    if "knots" not in effect:
        return f"{effect['field']} {effect['value']} {effect['effect']:+.2f}"
    least, most = (choose(effect["knots"], key=itemgetter(1))[0] for choose in (min, max))
    return f"{effect['field']} {most:.12g} over {least:.12g} {effect['effect']:+.2f}"


def scalars(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalars of a reported head by name. The weight of each part of the evidence has its own name."""
    found: dict[str, Any] = {}
    for name, value in (report.get("head") or {}).items():
        if isinstance(value, dict):
            found |= {f"{name} {part}": weight for part, weight in value.items()}
        else:
            found[name] = value
    return found


def decision(found: Mapping[str, Any]) -> None:
    """Write the level of the gate, its checks, and the reasons that are not checks."""
    if found.get("earlier_decisions"):
        number, limit = found["earlier_decisions"] + 1, found["level"]
        half = "half of it for each of two measures"
        show.line(f"decision {number} against this champion: the level of p is {limit:.2g}, {half}")
    checks = found.get("checks") or []
    for check in checks:
        show.line(f"{'passed' if check['passed'] else 'failed'}: {check['reason']}")
    checked = [check["reason"] for check in checks]
    for reason in found.get("reasons") or []:
        if reason not in checked:
            show.line(reason)


def comparisons(found: Iterable[Mapping[str, Any]], a: str, b: str) -> None:
    """Write paired comparisons of two models, a line for each measure."""
    rows = [
        (
            pair["measure"],
            pair["a"],
            pair["b"],
            f"{pair['difference']:+.4f}",
            f"[{pair['low']:+.4f}, {pair['high']:+.4f}]",
            "<0.0001" if pair["p_value"] < 0.0001 else pair["p_value"],
            pair["queries"],
        )
        for pair in found
    ]
    show.table(("measure", a, b, "difference", "95% interval", "p", "queries"), rows)
