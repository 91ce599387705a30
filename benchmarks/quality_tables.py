"""Tables of ranking quality for the documentation: figures of a stored result in, Markdown out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.markdown import NONE, at, bold, number, points, share, table, together

NDCG = "nDCG@10"
OURS = "trained"
FUSION = "best fixed fusion"
SET_LABELS = {
    "chorus": "chorus, electronics in a shop",
    "cosqa": "cosqa, questions on code",
    "cranfield": "cranfield, abstracts on aerodynamics",
    "crowdflower": "crowdflower, products of shops",
    "reviews": "reviews, questions on products",
    "squad_dev": "squad_dev, questions on Wikipedia",
}
README_COLUMNS = {
    "bm25": "BM25",
    "dense": "dense",
    "rrf": "RRF",
    FUSION: "best fixed fusion",
    "lambdamart": "LambdaMART",
    "lambdamart-sequence": "LambdaMART with our word signals",
    "untrained": "Softseek untrained",
    OURS: "Softseek trained",
}
OWN = ("untrained", "memory", OURS)
MARKS = {"better": "*", "worse": "!"}


def learning_readme(figures: Mapping[str, Any]) -> str:
    """Return the quality section of README.md: cost of a run, table, strongest peer."""
    sets, mean = figures["sets"], figures["mean"]
    spent = [cost for one in sets.values() if (cost := at(one, OURS, "cpu_seconds")) is not None]
    cost = f" of {min(spent):.0f} to {max(spent):.0f} processor seconds" if spent else ""
    rows = [("mean", mean), *((SET_LABELS.get(name, name), one) for name, one in sets.items())]
    cells = [[label, *_best_bold([at(one, system, NDCG) for system in README_COLUMNS])] for label, one in rows]
    peers = {name: one for name, one in mean.items() if name not in OWN and one.get(NDCG) is not None}
    strongest = max(peers, key=lambda name: float(peers[name][NDCG]))
    label, difference = README_COLUMNS.get(strongest, strongest), peers[strongest].get("ours_minus")
    return "\n".join(
        [
            f"nDCG@10 on held-out queries of {len(sets)} collections, after the train queries were posted as judgments",
            f"and one training run{cost}:",
            "",
            table(["", *README_COLUMNS.values()], cells),
            "",
            f"The strongest peer in the mean is {label}: {share(peers[strongest][NDCG])}, against",
            f"{share(mean[OURS][NDCG])} of Softseek. The difference is {points(difference)} points.",
        ]
    )


def _best_bold(values: Sequence[float | None]) -> list[str]:
    best = max(round(value, 3) for value in values if value is not None)
    return [bold(share(value), value is not None and round(value, 3) == best) for value in values]


def learning_gain(figures: Mapping[str, Any]) -> str:
    """Return ours before and after learning, with seeds, recall and cost."""
    sets = figures["sets"]

    def row(label: str, cell: Callable[[Any], str], mean: str = "") -> list[str]:
        return [label, *(cell(one) for one in sets.values()), mean]

    def quality(label: str, system: str, strong: bool = False) -> list[str]:
        mean = share(at(figures, "mean", system, NDCG))
        return [bold(cell, strong) for cell in row(label, lambda one: share(at(one, system, NDCG)), mean)]

    def promoted(one: Any) -> str:
        found = at(one, OURS, "promoted")
        return NONE if found is None else f"{found[0]} of {found[1]}"

    return table(
        ["nDCG@10", *sets, "mean"],
        [
            quality("best fixed fusion", FUSION),
            quality("untrained", "untrained"),
            quality("memory, after the judgments", "memory"),
            quality("after one training run", OURS, strong=True),
            row("± over seeds", lambda one: share(at(one, OURS, "spread"))),
            row("promoted, of the seeds", promoted),
            row("Recall@100, best fixed fusion", lambda one: share(at(one, FUSION, "R@100"))),
            row("Recall@100, after one training run", lambda one: share(at(one, OURS, "R@100"))),
            row("processor seconds of a run", lambda one: number(at(one, OURS, "cpu_seconds"))),
            row("peak MiB of a run", lambda one: number(at(one, OURS, "peak_mib"))),
            row("seconds until live", lambda one: number(at(one, OURS, "live_seconds"))),
        ],
    )


def learning_peers(figures: Mapping[str, Any]) -> str:
    """Return every system on every set, and ours minus the system over the sets."""
    sets, mean = figures["sets"], figures["mean"]
    rows = []
    for system in _systems(sets.values()):
        cells = [_marked(at(one, system)) for one in sets.values()]
        over = [share(at(mean, system, NDCG)), points(at(mean, system, "ours_minus"))]
        rows.append([bold(cell, system == OURS) for cell in ("ours" if system == OURS else system, *cells, *over)])
    return table(["system", *sets, "mean", "ours minus it, points"], rows)


def learning_costs(figures: Mapping[str, Any]) -> str:
    """Return processor seconds, and seconds until live, of the systems that learn in a process."""
    sets = figures["sets"]
    rows = []
    for system in _systems(sets.values()):
        cells = [
            together(*(number(at(one, system, cost)) for cost in ("cpu_seconds", "live_seconds", "peak_mib")))
            for one in sets.values()
        ]
        if any(at(one, system, "cpu_seconds") is not None for one in sets.values()):
            rows.append(["ours" if system == OURS else system, *cells])
    return table(["processor s; s until live; peak MiB", *sets], rows)


def _systems(sets: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the systems of all sets, ours first; the other states of ours are in `learning_gain`."""
    found = dict.fromkeys(system for one in sets for system in one if system not in OWN)
    return [OURS, *found]


def _marked(one: Mapping[str, Any] | None) -> str:
    return NONE if one is None else share(one.get(NDCG)) + MARKS.get(one.get("ours_is", ""), "")


def variants(state: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the renderer of ablations and forms: the first variant's measure, and differences to it."""

    def rendered(figures: Mapping[str, Any]) -> str:
        sets = figures["sets"]
        systems = [name for name in next(iter(sets.values())) if name.endswith(f", {state}")]
        if not systems:
            return "The stored result has no such figures."
        over = {"mean of sets": figures["mean"]} if figures.get("mean") else {}
        rows = []
        for system in systems:
            cells = []
            for one in (*sets.values(), *over.values()):
                found = at(one, system, NDCG)
                text = share(at(found, "mean")) if system == systems[0] else points(at(found, "minus_whole"))
                decided = [each["promoted"] for each in (at(one, system, "facts") or {}).values()]
                cells.append(text + (" +" if decided and all(decided) else ""))
            rows.append([system.removesuffix(f", {state}"), *cells])
        return table([f"{state}, nDCG@10", *sets, *over], rows)

    return rendered


def curves(figures: Mapping[str, Any]) -> str:
    """Return the difference to untrained at each number of train queries."""
    sets = figures["sets"]
    sizes = sorted(
        {size for one in sets.values() for size in one["points"]}, key=lambda size: (size == "all", size.zfill(9))
    )
    columns = [f"{name}, untrained {share(one['untrained'])}, {one['train']} in all" for name, one in sets.items()]
    rows = [[size, *(_point(one["points"].get(size)) for one in sets.values())] for size in sizes]
    return table(["train queries", *columns], rows)


def _point(point: Mapping[str, Any] | None) -> str:
    if point is None:
        return NONE
    dips = any(gap[2] < 0 for gap in (point["minus_untrained"], *point.get("by_seed", {}).values()))
    promoted = f", promoted with {point['promoted']}" if point["promoted"] else ""
    return points(point["minus_untrained"]) + promoted + (" dip" if dips else "")


def clicks(figures: Mapping[str, Any]) -> str:
    """Return, per set, each system after each size of the log."""
    sizes = figures["impressions"]
    sets = dict.fromkeys(name for size in sizes.values() for name in size["sets"])
    return "\n\n".join(f"{name}:\n\n{_clicks_of(name, sizes)}" for name in sets)


def _clicks_of(name: str, sizes: Mapping[str, Any]) -> str:
    systems = dict.fromkeys(system for size in sizes.values() for system in at(size, "sets", name) or {})
    rows = []
    for system in systems:
        cells = []
        for size in sizes.values():
            one = at(size, "sets", name, system)
            gained = at(size, "share", name, system)
            minus = at(one, "ours_minus")
            parts = [
                _spread(one),
                points(minus) if minus else f"{100 * gained:.0f} % of the gain" if gained is not None else "",
            ]
            cells.append(", ".join(filter(None, parts)) if one else NONE)
        rows.append([bold(cell, system == "chosen") for cell in (system, *cells)])
    return table(["system", *(f"{int(size):,} impressions" for size in sizes)], rows)


def repeats(figures: Mapping[str, Any]) -> str:
    """Return each system on each part of the queries after each size of the log, with ours minus the system."""
    columns = {
        f"{part}, {int(size):,} impressions": systems
        for size, parts in figures["impressions"].items()
        for part, systems in parts.items()
    }
    rows = []
    for system in dict.fromkeys(system for systems in columns.values() for system in systems):
        found = [at(systems, system) for systems in columns.values()]
        cells = [
            ", ".join([_spread(one), *([points(minus)] if (minus := at(one, "ours_minus")) else [])]) if one else NONE
            for one in found
        ]
        rows.append([bold(cell, not any(at(one, "ours_minus") for one in found)) for cell in (system, *cells)])
    return table(["system", *columns], rows)


def _spread(one: Mapping[str, Any] | None) -> str:
    spread = at(one, "spread")
    return share(at(one, NDCG)) + (f" ±{share(spread)}" if spread is not None else "")


def null(figures: Mapping[str, Any]) -> str:
    """Return the decisions by the null weight at one half, and its measures of calibration."""
    rows = [
        [
            f"{name}, {one['queries']} queries",
            system,
            *(f"{100 * found[measure]:.1f} %" for measure in ("false_alarms", "caught", "foreign_caught")),
            *(share(found[measure]) for measure in ("ECE", "AUROC")),
        ]
        for name, one in figures["sets"].items()
        for system, found in one["measured"].items()
    ]
    caught = ["false alarms", "caught, answers taken out", "caught, foreign queries"]
    return table(["set", "calibration", *caught, "expected calibration error", "AUROC"], rows)


def null_curves(figures: Mapping[str, Any]) -> str:
    """Return what is caught, of queries without their answers and of foreign queries, at rates of false alarms."""
    rows = [
        [name, system]
        + [
            f"{100 * own:.0f} / {100 * far:.0f} %"
            for own, far in zip(found["curve"], found["foreign_curve"], strict=True)
        ]
        for name, one in figures["sets"].items()
        for system, found in one["measured"].items()
        if system != "version 0"
    ]
    return table(["set", "calibration", *(f"at {rate} % false alarms" for rate in (1, 2, 5, 10))], rows)


DAY_ONE = {
    "bm25": "BM25",
    "dense": "dense",
    FUSION: FUSION,
    "version 0": "version 0",
    "documents": "**model of the documents**",
    "shipped": "with the product's parameters",
}


def day_one(figures: Mapping[str, Any]) -> str:
    """Return every system before any feedback, and the differences of the model of the documents."""
    rows = [
        [
            f"{name}, {one['queries']} queries",
            *(share(one["measured"][system]) for system in DAY_ONE),
            points(one["minus_best"]["documents"]),
            points(one["minus_version_0"]["documents"]),
        ]
        for name, one in figures["sets"].items()
    ]
    differences = ("it minus the best of the first three, points", "it minus version 0, points")
    return table(["nDCG@10", *DAY_ONE.values(), *differences], rows)


def known_titles(figures: Mapping[str, Any]) -> str:
    """Return for each set and system how often the document of a title is first, and the mean reciprocal rank."""
    sets = figures["sets"]
    systems = next(iter(sets.values()))["systems"]
    rows = [
        [
            system,
            *(
                f"{one['systems'][system]['first']:.1%}; {share(one['systems'][system]['mrr'])}"
                for one in sets.values()
            ),
        ]
        for system in systems
    ]
    return table(
        ["first; mean reciprocal rank", *(f"{name}, {one['titles']} titles" for name, one in sets.items())], rows
    )


def answers(figures: Mapping[str, Any]) -> str:
    """Return how often the sentence of each system contains the answer."""
    rows = [
        [name, f"{one['right']:.1%}", points(one["ours_minus"]), str(one["characters"])]
        for name, one in figures["systems"].items()
    ]
    headers = [
        "system",
        "sentence contains the answer",
        "closest sentence, trained, minus it, points",
        "mean characters",
    ]
    return table(headers, rows)


def spelling(figures: Mapping[str, Any]) -> str:
    """Return the shares of mistyped queries that are answered among the first three."""
    rows = [[name, f"{one['typed']:.1%}", f"{one['meant']:.1%}"] for name, one in figures["engines"].items()]
    return table(["engine", "as typed", "as meant"], rows)


def letters(figures: Mapping[str, Any]) -> str:
    """Return the measures of texts that are typed letter by letter."""
    after = ("3", "5", "8")
    rows = [
        [f"{name}, {one['texts']} {kind}", engine]
        + [share(one["mrr"][letters]) for letters in after]
        + [f"{one['keystrokes']:.1f}", f"{one['p50_ms']:.1f}"]
        for name, kinds in figures["sets"].items()
        for kind, engines in kinds.items()
        for engine, one in engines.items()
    ]
    return table(["set", "engine", *(f"MRR after {letters}" for letters in after), "letters", "p50 ms"], rows)


def languages(figures: Mapping[str, Any]) -> str:
    """Return the measures of each language and system."""
    rows = [
        [f"{language}, {one['queries']} queries", system, f"{found['first']:.1%}", share(found["mrr"])]
        for language, one in figures["languages"].items()
        for system, found in one["systems"].items()
    ]
    return table(["language", "system", "in the first three", "MRR@10"], rows)


def languages_kinds(figures: Mapping[str, Any]) -> str:
    """Return the shares of ours, of its words alone, and of the best other system, for each kind of query."""
    rows = []
    for language, one in figures["languages"].items():
        systems = one["systems"]
        own, words = f"ours, language {language}", f"ours, language {language}, words alone"
        others = {name: found for name, found in systems.items() if not name.startswith("ours")}
        best = max(others, key=lambda name: (others[name]["first"], others[name]["mrr"]))
        for kind in systems[own]["kinds"]:
            shares = [f"{systems[name]['kinds'][kind]:.0%}" for name in (own, words, best)]
            rows.append([f"{language}, {kind}", *shares[:2], f"{shares[2]}, {best}"])
    return table(["queries", "ours", "ours, words alone", "the best other system"], rows)


def gate(figures: Mapping[str, Any]) -> str:
    """Return the promotions of simulated runs."""
    rows = []
    for one in figures["rows"]:
        nights = one["runs"] > one["logs"]
        queries = "{} to {}".format(*one["queries"]) if nights else one["queries"]
        found, low, high = (f"{100 * value:.1f} %" for value in one["share"])
        rows.append(
            [
                f"{one['row']}, {one['feedback']}, {queries} queries",
                f"{one['logs']:,} logs" + (f", {one['runs']:,} runs" if nights else ""),
                f"{one['promoted']}: {found} [{low}, {high}]",
                f"{100 * one['once']:.1f} %" if nights else NONE,
                str(one["worse"]),
                f"{100 * one['chosen']:.0f} %",
                f"{100 * one['difference']:+.2f}",
                f"{100 * one['gain']:+.2f}",
            ]
        )
    columns = ["simulated", "", "promoted", "promoted if p < .1 were enough every night", "promoted and truly worse"]
    return table([*columns, "trained", "measured gain", "true gain"], rows)


def prediction(figures: Mapping[str, Any]) -> str:
    """Return the measures of predicted fields."""
    rows = [
        [f"{name}, {one['groups']:,} values", system, share(values["accuracy"]), share(values["Brier"]),
         number(values.get("error"), 1)]
        for name, one in figures["sets"].items()
        for system, values in one["systems"].items()
    ]  # fmt: skip
    return table(["set", "system", "accuracy", "Brier score", "mean absolute error, words"], rows)


def examination(figures: Mapping[str, Any]) -> str:
    """Return the errors of estimates of position bias."""
    known = ("impressions", "ranking", "rises", "shuffled")
    estimators = [name for name in figures["rows"][0] if name not in known]
    rows = [
        [f"{row['impressions']:,}", row["ranking"], "yes" if row["rises"] else "no", f"{100 * row['shuffled']:.0f} %"]
        + [share(row[each], 2) for each in estimators]
        for row in figures["rows"]
    ]
    return table(["impressions", "ranking", "clicked documents rise", "shuffled lists", *estimators], rows)
