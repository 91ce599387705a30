"""Tables of the simulations of exploration: the coverage of off-policy estimates, and learning from explored lists."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import NONE, number, table

SIDES = {"a": "the logging model", "b": "the other model", "difference": "difference"}
ESTIMATORS = ("ips", "self_normalised", "doubly_robust")


def coverage(figures: Mapping[str, Any]) -> str:
    """Return how often a 95 % interval is given, the coverage of those, and their mean width if doubly robust."""
    rows = [
        [
            f"{one['model']}, {100 * one['share']:g} % of {one['searches']:,} searches explored",
            SIDES[side],
            f"{by_name['ips']['truth']:.3f}",
            f"{by_name['ips']['effective_sample_size']:.0f}",
            _percent(by_name["ips"]["given"]),
            *(_percent(by_name[name]["given_coverage"]) for name in ESTIMATORS),
            number(by_name["doubly_robust"]["given_width"], 3),
        ]
        for one in figures["rows"]
        for side, by_name in one["sides"].items()
    ]
    columns = ["model and log", "estimate of", "truth", "effective sample size", "interval given"]
    return table([*columns, "IPS", "self-normalised", "doubly robust", "width, doubly robust"], rows)


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f} %"


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
