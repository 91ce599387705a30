"""Tables of the simulations of exploration: the coverage of off-policy estimates, and learning from explored lists."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import table

SIDES = {"a": "the logging model", "b": "the other model", "difference": "difference"}
ESTIMATORS = ("ips", "self_normalised", "doubly_robust")


def coverage(figures: Mapping[str, Any]) -> str:
    """Return the coverage of the 95 % intervals, and their mean width for the doubly robust estimate."""
    rows = [
        [
            f"{one['model']}, {100 * one['share']:g} % of {one['searches']:,} searches explored",
            SIDES[side],
            f"{by_name['ips']['truth']:.3f}",
            *(f"{100 * by_name[name]['coverage']:.1f} %" for name in ESTIMATORS),
            f"{by_name['doubly_robust']['width']:.3f}",
            f"{by_name['ips']['effective_sample_size']:.0f}",
            f"{100 * by_name['ips']['reliable']:.1f} %",
        ]
        for one in figures["rows"]
        for side, by_name in one["sides"].items()
    ]
    covered = [
        "IPS",
        "self-normalised",
        "doubly robust",
        "width, doubly robust",
        "effective sample size",
        "called reliable",
    ]
    return table(["model and log", "estimate of", "truth", *covered], rows)


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
