"""The worth of each part of the ranking: the same fit and the same searches, each time without one part.

    python -m benchmarks.ablations --data ../shared/data --out benchmarks/results/ablations.json

The train split is posted as judgments once. Then, in this process and on one thread, each variant is fitted without
its part from the first example on, so that the other parts can compensate, and the test split is searched without the
part. Each variant has two figures: `trained` is the fitted head, regardless of the promotion gate; `served` is the
head that goes live, which is the untrained head if the gate rejects the fit. Differences are to the whole, negative
where the part helps, with a paired t interval over test queries. Vectors come from a cache after the first run
(benchmarks/vectors.py).
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet
from benchmarks.measurements import MEASURES, Measurements
from benchmarks.result_file import commit, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import (
    KEYS,
    Bench,
    Values,
    asked_queries,
    finished,
    loaded,
    mean_over_sets,
    on_one_thread,
    options_of,
    print_measured,
    rounded,
    run_config,
    sets,
)
from index.candidates.build import seal
from index.encoding.encoder import Encoder
from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.learning.config import FitConfig
from index.learning.fit import fit
from index.memory.memory import Memory
from index.ranking.attention import AttentionHead
from index.records import Floats, Ints, KeyKind, Mask
from index.storage.checksum_guard import ChecksumGuard
from index.words.query_words import QueryWords
from index.words.reading_options import EXACTLY, ReadingOptions
from index.words.term_matching import Matches
from index.words.word_search import IdOrder, Reading, WordSearcher
from index.words.word_statistics import WordStatistics
from service.settings import Settings

WHOLE = "the whole"
STATES = ("trained", "served")


@dataclass(frozen=True)
class Variant:
    """A change of the whole: of the generation, of fields of `FitConfig`, and of fields of `HeadConfig`."""

    name: str
    of: Callable[[Generation], Generation] = lambda generation: generation
    config: Mapping[str, Any] = field(default_factory=dict)
    attention: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Variants to measure, the whole first; seeds; the settings that figures depend on."""

    variants: Sequence[Variant]
    seeds: Sequence[int]
    settings: Mapping[str, Any]


class NoWords(WordSearcher):
    """A word index without hits. It still weighs the words of a query: their number and rarity are facts of it."""

    def __init__(self, words: WordSearcher) -> None:
        self._wrapped = words

    @property
    def count(self) -> int:
        """Documents in the index."""
        return self._wrapped.count

    def find(
        self,
        reading: Reading,
        k: int,
        allowed: Ints | None = None,
        corrected: Ints | None = None,
        id_order: IdOrder | None = None,
        idf: Mapping[str, float] | None = None,
    ) -> tuple[Ints, Floats]:
        """Return no rows."""
        return np.empty(0, np.int64), np.empty(0, np.float32)

    def read(self, text: str, options: ReadingOptions = EXACTLY) -> Reading:
        """Return the words of a query."""
        return self._wrapped.read(text, options)


class WithoutTitles(Generation):
    """A generation in which no title is a query."""

    def titled(self, text: str, doc_indices: Ints) -> Mask:
        """Return False for all documents (n,)."""
        return np.zeros(len(doc_indices), np.bool_)


class WithoutSequence(WithoutTitles):
    """A generation that ignores the order of words: coverage, proximity and phrase are 0, and no title is a query."""

    def match(
        self,
        query: QueryWords,
        doc_indices: Ints,
        with_signals: bool = False,
        statistics: WordStatistics | None = None,
    ) -> tuple[Floats, Matches, Floats | None]:
        """Return BM25 by source (n, len(Source)), matches of 0, and the signals."""
        scores, matches, signals = super().match(query, doc_indices, with_signals, statistics)
        return scores, Matches(*(np.zeros_like(one) for one in matches)), signals


def without_titles(generation: Generation) -> Generation:
    """Return a generation without the rule that exact titles come first."""
    return _as_kind(WithoutTitles, generation)


def without_sequence(generation: Generation) -> Generation:
    """Return a generation without coverage, proximity, phrase and exact titles."""
    return _as_kind(WithoutSequence, generation)


def _as_kind(kind: type[Generation], generation: Generation) -> Generation:
    return kind(**{one.name: getattr(generation, one.name) for one in fields(generation)})


def without_words(generation: Generation) -> Generation:
    """Return a generation in which words find no candidate and add no evidence."""
    return replace(without_sequence(generation), words=NoWords(generation.words))


def without_memory(generation: Generation) -> Generation:
    """Return a generation without memory."""
    return replace(generation, memory=Memory.of([], generation.dim))


def without_kind(kind: KeyKind, generation: Generation) -> Generation:
    """Return a generation without a kind of keys. The passages take over the weight of the kind."""
    keep = generation.columns.key_kind != kind
    kept_before = np.append(0, np.cumsum(keep))
    keys, columns = generation.key_vectors(np.flatnonzero(keep)), generation.columns
    kept = replace(
        columns,
        key_kind=columns.key_kind[keep],
        key_start=columns.key_start[keep],
        key_end=columns.key_end[keep],
        key_checksums=columns.key_checksums[keep],
        first_key=kept_before[columns.first_key],
    )
    sealed = seal(keys, keys.__getitem__)
    return replace(generation, keys=keys, columns=kept, sealed=sealed, key_guard=ChecksumGuard())


def _recipes_without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in FitConfig.recipes if name not in names)


UNTRAINED: Mapping[str, Any] = {"recipes": FitConfig.recipes[:1], "hops": (), "trees": (), "priors": ()}
"""A fit that keeps the initial parameters."""
VARIANTS = (
    Variant(WHOLE),
    Variant("without words", without_words),
    Variant("without coverage, proximity and phrase", without_sequence),
    Variant("without memory", without_memory),
    Variant("without the query projection", config={"recipes": _recipes_without("projection")}),
    Variant("without title keys", lambda generation: without_kind(KeyKind.TITLE, generation)),
    Variant("without sentence keys", lambda generation: without_kind(KeyKind.SENTENCE, generation)),
    Variant("without the second hop", config={"hops": ()}),
    Variant("without training", config=UNTRAINED),
)


def main() -> None:
    """Run the benchmark on the chosen sets; print tables, and one last line of JSON."""
    run(VARIANTS, options_of(__doc__.split("\n")[0], queries=1000, seeds="0").parse_args())


def run(variants: Sequence[Variant], options: argparse.Namespace) -> None:
    """Measure the variants, the whole first, on the chosen sets; print tables, and one last line of JSON."""
    on_one_thread()
    settings, seeds = Settings(), [int(seed) for seed in options.seeds.split(",")]
    plan = Plan(variants, seeds, {"keys": ",".join(KEYS), "encoder": settings.encoder})
    encoder = CachedEncoder(converted_encoder(settings.encoder))
    results, console, names = Measurements(options.resume), Console(width=200, highlight=False), []
    for one in sets(options.data, options.sets):
        names.append(one.name)
        measure_set(one, encoder, asked_queries(one, options.queries), plan, results, console)
    labels = [variant.name for variant in variants]
    found = summary(results, names, labels)
    for state in STATES:
        for measure in MEASURES:
            console.print(table(found, names, labels, state, measure))
    publish({"settings": plan.settings, **found}, seeds, options.out, results.commits())


def measure_set(
    one: TestSet, encoder: Encoder, queries: Sequence[str], plan: Plan, results: Measurements, console: Console
) -> None:
    """Measure every missing variant of one set with every seed."""
    results.open_set(one.name, len(one.documents), len(one.train), queries)
    missing = [
        (variant, seed)
        for seed in plan.seeds
        for variant in plan.variants
        if not all(results.has(one.name, system_of(variant.name, state), seed, plan.settings) for state in STATES)
    ]
    if not missing:
        return
    with loaded(one, encoder, queries) as bench:
        for variant, seed in missing:
            for state, values, cost, facts in measure(bench, variant, seed):
                about = {"settings": plan.settings, "commit": commit(), "cost": cost, "facts": facts}
                results.put(one.name, system_of(variant.name, state), seed, values, **about)
                label = f"{one.name}, seed {seed}, {system_of(variant.name, state)}"
                print_measured(console, label, values, facts | cost)


def measure(
    bench: Bench, variant: Variant, seed: int
) -> Iterator[tuple[str, Values, dict[str, float], dict[str, Any]]]:
    """Yield the measures of the fitted head and of the served head, with the cost of the fit and its choices."""
    generation = variant.of(bench.generation)
    champion = bench.champion
    if variant.attention:
        champion = AttentionHead(replace(champion.config, **variant.attention))
    config = replace(run_config(seed), **variant.config)
    fitted, seconds = finished(fit(generation, bench.feedback, champion, config))
    promoted, recipe = fitted.decision.promote, fitted.report["recipe"]["recipe"]
    facts = {"promoted": promoted, "recipe": recipe, "hop": fitted.report["hop"]["chosen"]}
    cost = {"fit_seconds": round(seconds, 1)}
    trained = bench.measured(generation, fitted.head)
    yield "trained", trained, cost, facts
    yield "served", trained if promoted else bench.measured(generation, champion), cost, facts


def system_of(variant: str, state: str) -> str:
    """Return the system name of a variant in a state."""
    return f"{variant}, {state}"


def summary(results: Measurements, names: Sequence[str], variants: Sequence[str]) -> dict[str, Any]:
    """Return `sets`: set -> system -> means, gaps to the whole, facts by seed; and `mean`: system -> over sets.

    The first of the variants is the whole.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    means: dict[str, Any] = {}
    for state in STATES:
        whole = system_of(variants[0], state)
        for variant in variants:
            system = system_of(variant, state)
            for name in names:
                figures = {measure: _figures(results, name, system, whole, measure) for measure in MEASURES}
                facts = {seed: entry["facts"] for seed, entry in results.entries(name, system).items()}
                found[name][system] = figures | {"facts": facts}
            means[system] = {measure: _mean(results, names, system, whole, measure) for measure in MEASURES}
    return {"sets": found, "mean": means}


def _figures(results: Measurements, name: str, system: str, whole: str, measure: str) -> dict[str, Any]:
    """Return the mean, and its difference to the whole with low and high; seeds are averaged per query first."""
    queries = results.sets[name]["queries"]
    before, after = (
        dict(zip(queries, results.values(name, which, measure).mean(0), strict=True)) for which in (whole, system)
    )
    against = compare(measure, before, after)
    gap = rounded(against.difference, against.low, against.high)
    return {"mean": rounded(against.b)[0], "minus_whole": gap}


def _mean(results: Measurements, names: Sequence[str], system: str, whole: str, measure: str) -> dict[str, Any]:
    each = [results.values(name, system, measure).mean(0) for name in names]
    gaps = [mine - results.values(name, whole, measure).mean(0) for name, mine in zip(names, each, strict=True)]
    return {"mean": rounded(np.mean([one.mean() for one in each]))[0], "minus_whole": mean_over_sets(gaps)}


def table(found: Mapping[str, Any], names: Sequence[str], variants: Sequence[str], state: str, measure: str) -> Table:
    """Return a table of one measure: variants in rows, sets in columns; `+` marks promoted heads."""
    title = f"{measure}, {state}; + promoted; below: minus the whole, in points, with its 95 % interval"
    made = Table("variant", *names, "mean of sets", title=title)
    for variant in variants:
        system = system_of(variant, state)
        cells = []
        for one in (*(found["sets"][name][system] for name in names), found["mean"][system]):
            promoted = [facts["promoted"] for facts in one.get("facts", {}).values()]
            cell = f"{one[measure]['mean']:.3f}" + (" +" if promoted and all(promoted) else "")
            if variant != variants[0]:
                cell += "\n{:+.1f} \\[{:+.1f}, {:+.1f}]".format(*(100 * gap for gap in one[measure]["minus_whole"]))
            cells.append(cell)
        made.add_row(variant, *cells)
    return made


if __name__ == "__main__":
    main()
