"""Does a search for the title of a document find it first?

    python -m benchmarks.known_titles --data ../shared/data --out benchmarks/results/known_titles.json

The searches are at most 500 titles of each set that has titles, drawn from those that one document alone has, as BM25
compares words. Compared are the share of searches whose first document is the one with the title, and the mean
reciprocal rank: with the rule that exact titles come first, without it, and in the modes `words` (BM25) and `dense`.
`trained` is the head of a training run on all train judgments, whether it is promoted or not. `judged` has nDCG@10 of
the judged queries whose words are a title, with the rule minus without it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.ablations import without_titles
from benchmarks.measurements import MEASURES
from benchmarks.result_file import publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import Bench, finished, loaded, on_one_thread, options_of, run_config, sets
from index.encoding.encoder import Encoder
from index.encoding.model_files import DEFAULT_MODEL
from index.evaluation.measures import measure_run
from index.generation.generation import Generation
from index.learning.fit import fit
from index.learning.held_out import sample
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Mode, Query, as_searched
from index.ranking.search import Ranking, search

DEEPEST = 100
"""A document below this rank counts as not found."""


class Searches:
    """Searches of a bench, with and without the rule."""

    def __init__(self, bench: Bench, encoder: Encoder) -> None:
        self._bench, self._encoder = bench, encoder
        self.plain = without_titles(bench.generation)

    def ranking(self, generation: Generation, head: AttentionHead, text: str, mode: Mode = Mode.HYBRID) -> Ranking:
        """Return the ranking of a text as a search of the service has it."""
        asked = Query(text, np.zeros(generation.dim, np.float32), mode=mode)
        return search(generation, head, as_searched(generation, asked, self._encoder.encode_query))

    def ids(self, generation: Generation, head: AttentionHead, text: str, mode: Mode = Mode.HYBRID) -> list[str]:
        """Return the ids of the best documents, at most DEEPEST."""
        best = self.ranking(generation, head, text, mode).doc_indices[:DEEPEST]
        return [self._bench.ids[str(row)] for row in generation.rows[best]]

    def found(
        self, titles: Mapping[str, str], generation: Generation, head: AttentionHead, mode: Mode = Mode.HYBRID
    ) -> dict[str, float]:
        """Return the share of the titles whose document is first, and the mean reciprocal rank."""
        ranked = {id: self.ids(generation, head, title, mode) for id, title in titles.items()}
        reciprocal = [1 / (ids.index(id) + 1) if id in ids else 0.0 for id, ids in ranked.items()]
        return {
            "first": round(float(np.mean(np.equal(reciprocal, 1.0))), 4),
            "mrr": round(float(np.mean(reciprocal)), 4),
        }

    def gain(self, head: AttentionHead) -> dict[str, Any]:
        """Return the number of judged queries whose words are a title, and nDCG@10 with the rule minus without it."""
        one = self._bench.one
        judged = {**one.train, **one.test}
        generation = self._bench.generation
        titled = [
            query
            for query in sorted(judged)
            if (mask := self.ranking(generation, head, one.queries[query]).candidates.titled) is not None and mask.any()
        ]
        if not titled:
            return {"queries": 0, "gain": None}
        runs = (
            {query: self.ids(documents, head, one.queries[query]) for query in titled}
            for documents in (generation, self.plain)
        )
        with_rule, without = (
            measure_run(run, {query: judged[query] for query in titled}, MEASURES)[MEASURES[0]] for run in runs
        )
        return {"queries": len(titled), "gain": round(float(np.mean([with_rule[q] - without[q] for q in titled])), 4)}


def single_titles(bench: Bench, most: int, seed: int) -> dict[str, str]:
    """Return id -> title of at most `most` documents that alone have the words of their title."""
    number = bench.generation.words.number
    titles = {one["id"]: one["title"] for one in bench.one.documents if one["title"]}
    words = {id: number(title).tobytes() for id, title in titles.items()}
    count = Counter(words.values())
    return {id: titles[id] for id in sample([id for id in sorted(titles) if count[words[id]] == 1], most, seed)}


def measure(bench: Bench, encoder: Encoder, titles: Mapping[str, str], seed: int) -> dict[str, Any]:
    """Return the figures of one set."""
    searches = Searches(bench, encoder)
    trained = finished(fit(bench.generation, bench.feedback, bench.champion, run_config(seed)))[0].head
    systems = {
        "untrained": (bench.generation, bench.champion),
        "untrained, without the rule": (searches.plain, bench.champion),
        "trained": (bench.generation, trained),
        "trained, without the rule": (searches.plain, trained),
    }
    found = {name: searches.found(titles, generation, head) for name, (generation, head) in systems.items()}
    for name, mode in (("words (BM25)", Mode.WORDS), ("dense", Mode.DENSE)):
        found[name] = searches.found(titles, bench.generation, bench.champion, mode)
    return {"titles": len(titles), "systems": found, "judged": searches.gain(bench.champion)}


def measured_sets(options: Any, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the figures of each set in which titles belong to one document."""
    encoder = CachedEncoder(converted_encoder(DEFAULT_MODEL))
    for one in sets(options.data, options.sets):
        if not any(document["title"] for document in one.documents):
            continue
        with loaded(one, encoder, []) as bench:
            if titles := single_titles(bench, options.queries, seed):
                yield one.name, measure(bench, encoder, titles, seed)


def main() -> None:
    """Measure each set, and print the result."""
    options = options_of(__doc__.split("\n")[0], queries=500, seeds="0").parse_args()
    on_one_thread()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    publish({"sets": dict(measured_sets(options, seeds[0]))}, seeds[:1], options.out)


if __name__ == "__main__":
    main()
