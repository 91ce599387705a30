"""Tables of the simulations of exploration: the coverage of off-policy estimates, and learning from explored lists."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.markdown import NONE, table

SIDES = {"a": "the logging model", "b": "the other model", "difference": "difference"}
ESTIMATORS = ("ips", "self_normalised", "doubly_robust")
NOT_MEASURED = "not measured"
"""A figure that a result does not have: an earlier result has the coverage of all intervals, given or not."""


def coverage(figures: Mapping[str, Any]) -> str:
    """Return how often a 95 % interval is given, the coverage of those, and their mean width if doubly robust."""
    rows = [
        [
            f"{one['model']}, {100 * one['share']:g} % of {one['searches']:,} searches explored",
            SIDES[side],
            f"{by_name['ips']['truth']:.3f}",
            f"{by_name['ips']['effective_sample_size']:.0f}",
            f"{100 * _given(by_name['ips']):.1f} %",
            *(_of_given(by_name[name], "coverage", lambda share: f"{100 * share:.1f} %") for name in ESTIMATORS),
            _of_given(by_name["doubly_robust"], "width", lambda width: f"{width:.3f}"),
        ]
        for one in figures["rows"]
        for side, by_name in one["sides"].items()
    ]
    columns = ["model and log", "estimate of", "truth", "effective sample size", "interval given"]
    return table([*columns, "IPS", "self-normalised", "doubly robust", "width, doubly robust"], rows)


def _given(summary: Mapping[str, Any]) -> float:
    """Return the share of the logs with an interval."""
    return float(summary["given"] if "given" in summary else summary["reliable"])


def _of_given(summary: Mapping[str, Any], figure: str, shown: Callable[[float], str]) -> str:
    """Return a figure of the given intervals; the figure of all intervals where all were given."""
    share = _given(summary)
    if share == 0:
        return NONE
    if "given" in summary:
        return shown(summary[f"given_{figure}"])
    return shown(summary[figure]) if share == 1 else NOT_MEASURED


def learning(figures: Mapping[str, Any]) -> str:
    """Return the true clicks per search of the learned models."""
    rows = [
        [
            f"{kind}: {name}",
            f"{found['clicks']:.3f}",
            f"{found['gain']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]",
        ]
        for kind, systems in figures["kinds"].items()
        for name, found in systems.items()
    ]
    return table(["searchers, objective and explored share", "clicks per search", "gain over the logging model"], rows)
