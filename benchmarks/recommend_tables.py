"""Renders the results of `benchmarks.recommend` as Markdown tables."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import bold, number, points, share, table


def systems(figures: Mapping[str, Any]) -> str:
    """Return a row per set and system: hit rate and nDCG@10."""
    rows = []
    for name, one in figures["sets"].items():
        best = max(values["ndcg"] for values in one["systems"].values())
        for system, values in one["systems"].items():
            ndcg = bold(share(values["ndcg"]), values["ndcg"] == best)
            label = f"{name}, {number(one['sessions'])} sessions, {one['liked']} liked"
            rows.append((label, system, share(values["hit_rate"]), ndcg))
    return table(("set", "system", "hit rate@10", "nDCG@10"), rows)


def gaps(figures: Mapping[str, Any]) -> str:
    """Return a row per set: nDCG@10 of attention minus the mean of the liked values, with its interval."""
    rows = [(name, points(one["attention_minus_mean"])) for name, one in figures["sets"].items()]
    return table(("set", "attention minus mean, points of nDCG@10"), rows)


def choices(figures: Mapping[str, Any]) -> str:
    """Return a row per value of tau and of f: nDCG@10 on the train sessions."""
    rows = []
    for letter, name in (("tau", "sharpness"), ("f", "aversion")):
        one = figures[name]
        for value, ndcg in one["ndcg"].items():
            used = float(value) == one["used"]
            rows.append((f"{letter} = {float(value):g}", ", ".join(one["sets"]), bold(share(ndcg), used)))
    return table(("constant", "train sessions of", "nDCG@10"), rows)


def dislikes(figures: Mapping[str, Any]) -> str:
    """Return a row per set with disliked documents: nDCG@10 and the rank of the nearest neighbour of a dislike."""
    columns = ("set", "sessions", "nDCG@10 without", "with", "gain, points", "rank of the neighbour without", "with")
    rows = [
        (
            name,
            number(one["sessions"]),
            share(one["ndcg_without"]),
            share(one["ndcg_with"]),
            points(one["gain"]),
            number(one["neighbour_rank_without"]),
            number(one["neighbour_rank_with"]),
        )
        for name, one in figures["dislikes"].items()
    ]
    return table(columns, rows)
