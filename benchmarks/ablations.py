"""What each part of the ranking is worth: the same fit and the same searches, each time without one part.

    python -m benchmarks.ablations --data ../shared/data --out ablations.json

The train split is posted as judgments once; then, in this process and on one thread, a head is fitted without the part
from the first example on, so that what is left may make up for it, and the test split is searched without it. Two
figures each: `trained` is the fitted head whatever the gate says of it, `served` the head that goes live, which is the
untrained one where the gate says no. Differences are to the whole, negative where the part is worth something, with a
paired bootstrap over test queries. Vectors come from a cache after the first run (benchmarks/vectors.py).
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet
from benchmarks.results import MEASURES, Results
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import (
    KEYS,
    Bench,
    Values,
    asked_queries,
    commit,
    finished,
    laid_open,
    mean_over_sets,
    on_one_thread,
    options_of,
    rounded,
    run_config,
    sets,
)
from index.candidates.build import seal
from index.encoding.encoder import Encoder
from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.learning.fit import fit
from index.memory.memory import Memory
from index.records import Floats, Ints, KeyKind
from index.storage.checksum_guard import ChecksumGuard
from index.words.bm25_index import WordSearcher
from index.words.term_matching import Matches, Words
from service.settings import Settings

WHOLE = "the whole"
STATES = ("trained", "served")


@dataclass(frozen=True)
class Variant:
    """What is left of the whole: how a generation loses its part, and what is changed of `FitConfig`."""

    name: str
    of: Callable[[Generation], Generation] = lambda generation: generation
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Variants and seeds to measure, and what figures depend on besides."""

    variants: Sequence[Variant]
    seeds: Sequence[int]
    settings: Mapping[str, Any]


class NoWords(WordSearcher):
    """Finds nothing and scores nothing, but still weighs a query's words: length and rarity are facts of the query."""

    def __init__(self, words: WordSearcher) -> None:
        self._words = words

    @property
    def count(self) -> int:
        """Documents in the index."""
        return self._words.count

    def search(self, text: str, k: int, allowed: Ints | None = None) -> tuple[Ints, Floats]:
        """Return no rows."""
        return np.empty(0, np.int64), np.empty(0, np.float32)

    def weigh(self, text: str) -> tuple[Words, Floats]:
        """Return the words of a text as numbers, and their idf."""
        return self._words.weigh(text)


class OneByOne(Generation):
    """Knows no order of words: coverage, proximity and phrase are 0 everywhere."""

    def match(self, query: Words, weight: Floats, doc_indices: Ints) -> tuple[Floats, Matches]:
        """Return BM25 (n,) alone."""
        scores, matches = super().match(query, weight, doc_indices)
        return scores, Matches(*(np.zeros_like(one) for one in matches))


def without_sequence(generation: Generation) -> Generation:
    """Return a generation that counts words one by one."""
    return OneByOne(**{one.name: getattr(generation, one.name) for one in fields(generation)})


def without_words(generation: Generation) -> Generation:
    """Return a generation in which words find no candidate and are no evidence."""
    return replace(without_sequence(generation), words=NoWords(generation.words))


def without_memory(generation: Generation) -> Generation:
    """Return a generation that remembers no past query."""
    return replace(generation, memory=Memory.of([], generation.dim))


def without_kind(kind: KeyKind, generation: Generation) -> Generation:
    """Return a generation without a kind of keys: its weight goes to the passages, as where a document has no title."""
    keep = generation.key_kind != kind
    kept_before = np.append(0, np.cumsum(keep))
    keys = generation.vectors(np.flatnonzero(keep))
    return replace(
        generation,
        keys=keys,
        key_kind=generation.key_kind[keep],
        key_start=generation.key_start[keep],
        key_end=generation.key_end[keep],
        first_key=kept_before[generation.first_key],
        sealed=seal(keys, keys.__getitem__),
        checksum_guard=ChecksumGuard(),
    )


VARIANTS = (
    Variant(WHOLE),
    Variant("without words", without_words),
    Variant("without coverage, proximity and phrase", without_sequence),
    Variant("without memory", without_memory),
    Variant("without query projection", config={"recipes": ("initial", "weights")}),
    Variant("without title keys", lambda generation: without_kind(KeyKind.TITLE, generation)),
    Variant("without sentence keys", lambda generation: without_kind(KeyKind.SENTENCE, generation)),
    Variant("without the second hop", config={"hops": ()}),
    Variant("without training", config={"recipes": ("initial",), "hops": ()}),
)


def main() -> None:
    """Run the benchmark on the sets asked for; print tables, and one last line of JSON."""
    options = options_of(__doc__.split("\n")[0], queries=1000, seeds="0").parse_args()
    on_one_thread()
    settings, seeds = Settings(), [int(seed) for seed in options.seeds.split(",")]
    plan = Plan(VARIANTS, seeds, {"keys": ",".join(KEYS), "encoder": settings.encoder})
    encoder = CachedEncoder(converted_encoder(settings.encoder))
    results, console, names = Results(options.out), Console(width=200, highlight=False), []
    for one in sets(options.data, options.sets):
        names.append(one.name)
        measure_set(one, encoder, asked_queries(one, options.queries), plan, results, console)
    found = summary(results, names)
    for state in STATES:
        for measure in MEASURES:
            console.print(table(found, names, state, measure))
    print(json.dumps({"commit": commit(), "seeds": seeds, "cores": os.cpu_count(), **plan.settings, **found}))


def measure_set(
    one: TestSet, encoder: Encoder, queries: Sequence[str], plan: Plan, results: Results, console: Console
) -> None:
    """Measure every variant of one set with every seed that is not in the results."""
    results.open_set(one.name, len(one.documents), len(one.train), queries)
    missing = [
        (variant, seed)
        for seed in plan.seeds
        for variant in plan.variants
        if not all(results.has(one.name, system_of(variant.name, state), seed, plan.settings) for state in STATES)
    ]
    if not missing:
        return
    with laid_open(one, encoder, queries) as bench:
        for variant, seed in missing:
            for state, values, cost, facts in measure(bench, variant, seed):
                about = {"settings": plan.settings, "commit": commit(), "cost": cost, "facts": facts}
                results.put(one.name, system_of(variant.name, state), seed, values, **about)
                mean = np.mean(list(values[MEASURES[0]].values()))
                told = f"{one.name}, seed {seed}, {system_of(variant.name, state)}: {mean:.4f}"
                console.print(told, json.dumps(facts | cost), markup=False, soft_wrap=True)


def measure(
    bench: Bench, variant: Variant, seed: int
) -> Iterator[tuple[str, Values, dict[str, float], dict[str, Any]]]:
    """Yield what the fitted head measures, and what would be served; with its cost, and what was chosen."""
    generation = variant.of(bench.generation)
    config = replace(run_config(seed), **variant.config)
    fitted, seconds = finished(fit(generation, bench.feedback, bench.champion, config))
    promoted, recipe = fitted.decision.promote, fitted.report["recipe"]["recipe"]
    facts = {"promoted": promoted, "recipe": recipe, "hop": fitted.report["hop"]["chosen"]}
    cost = {"fit_seconds": round(seconds, 1)}
    trained = bench.measured(generation, fitted.head)
    yield "trained", trained, cost, facts
    yield "served", trained if promoted else bench.measured(generation, bench.champion), cost, facts


def system_of(variant: str, state: str) -> str:
    """Return the name that a variant's figure has among the results."""
    return f"{variant}, {state}"


def summary(results: Results, names: Sequence[str]) -> dict[str, Any]:
    """Return `sets`: set -> figure -> means, gaps to the whole, facts by seed; and `mean`: figure -> over sets."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    means: dict[str, Any] = {}
    for state in STATES:
        for variant in VARIANTS:
            system = system_of(variant.name, state)
            for name in names:
                figures = {measure: _figures(results, name, system, state, measure) for measure in MEASURES}
                facts = {seed: entry["facts"] for seed, entry in results.entries(name, system).items()}
                found[name][system] = figures | {"facts": facts}
            means[system] = {measure: _mean(results, names, system, state, measure) for measure in MEASURES}
    return {"sets": found, "mean": means}


def _figures(results: Results, name: str, system: str, state: str, measure: str) -> dict[str, Any]:
    """Return the mean and, with low and high, how far it is from the whole; seeds are averaged per query first."""
    queries = results.sets[name]["queries"]
    whole, mine = (
        dict(zip(queries, results.values(name, which, measure).mean(0), strict=True))
        for which in (system_of(WHOLE, state), system)
    )
    against = compare(measure, whole, mine)
    gap = rounded(against.difference, against.low, against.high)
    return {"mean": rounded(against.b)[0], "minus_whole": gap}


def _mean(results: Results, names: Sequence[str], system: str, state: str, measure: str) -> dict[str, Any]:
    each = [results.values(name, system, measure).mean(0) for name in names]
    whole = [results.values(name, system_of(WHOLE, state), measure).mean(0) for name in names]
    gaps = [mine - all_of_it for mine, all_of_it in zip(each, whole, strict=True)]
    return {"mean": rounded(np.mean([one.mean() for one in each]))[0], "minus_whole": mean_over_sets(gaps)}


def table(found: Mapping[str, Any], names: Sequence[str], state: str, measure: str) -> Table:
    """Return a table of one measure: variants in rows, sets in columns; `+` marks what the gate let go live."""
    title = f"{measure}, {state}; + promoted; below: minus the whole, in points, with its 95 % interval"
    made = Table("variant", *names, "mean of sets", title=title)
    for variant in VARIANTS:
        system = system_of(variant.name, state)
        cells = []
        for one in (*(found["sets"][name][system] for name in names), found["mean"][system]):
            promoted = [facts["promoted"] for facts in one.get("facts", {}).values()]
            cell = f"{one[measure]['mean']:.3f}" + (" +" if promoted and all(promoted) else "")
            if variant.name != WHOLE:
                cell += "\n{:+.1f} \\[{:+.1f}, {:+.1f}]".format(*(100 * gap for gap in one[measure]["minus_whole"]))
            cells.append(cell)
        made.add_row(variant.name, *cells)
    return made


if __name__ == "__main__":
    main()
