"""What fields of the metadata are worth: a shop whose products say how often they were sold.

    python -m benchmarks.fields --seeds 0,1,2 --out benchmarks/results/fields.json

Customers of the shop (benchmarks/shop.py) prefer popular products. Each product has a field `sold`, a noisy count that
grows with its popularity, and the fields `price`, which says nothing, `brand` and `colour`. The log and its clicks are
simulated as in `benchmarks.repeats`, before a sixth of the products arrives. The service learns from the log without
filterable fields, and with these four. Both heads are measured before the new products arrive, on queries of the log
and on others, and afterwards on the others, with the new products among the judged ones. LambdaMART learns from all
signals of our search, without and with the four fields as features.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.click_log import Traffic, as_judged, graded
from benchmarks.click_systems import Log, logs, material_from
from benchmarks.collections import TestSet, document_ids, ingest, opened
from benchmarks.measurements import MEASURES, Found, Measurements
from benchmarks.ours import searched, train
from benchmarks.peers import Task
from benchmarks.peers.launch import names_in
from benchmarks.repeats import KEYS, settings
from benchmarks.result_file import add_out, commit, publish
from benchmarks.shop import SEEN_PREFIX, UNSEEN_PREFIX, shop
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import add_resume, on_one_thread
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from index.records import Floats
from service.settings import Settings

FIELDS = ("brand", "colour", "price", "sold")
MEASURED = 160
"""Test queries of each part: as many in every shop, although the old products of some meet no wish of a query."""
NEW = 6
"""One in so many products arrives after the log."""
ARRIVED = "arrived"
"""Name of the part of the measurements with the new products, on unseen queries."""
PARTS = (SEEN_PREFIX, UNSEEN_PREFIX, ARRIVED)
UNTRAINED, WITHOUT, WITH = "untrained", "trained", "trained, fields"
PEER, PEER_WITH = "lambdamart", "lambdamart, fields"
SYSTEMS = (UNTRAINED, WITHOUT, WITH, PEER, PEER_WITH)


def main() -> None:
    """Run the benchmark; print tables, and one last line of JSON."""
    options = parser().parse_args()
    sizes, seeds = ([int(one) for one in names_in(listed)] for listed in (options.impressions, options.seeds))
    results, console = Measurements(options.resume), Console(width=160, highlight=False)
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    on_one_thread()
    for seed in seeds:
        for size in sizes:
            measure(Measuring(shop(seed, with_fields=True), seed, size, results, console), encoder, options.peers)
    figures: dict[str, Any] = {"settings": settings(), "impressions": {}}
    for size in sizes:
        names = [part_name(part, size) for part in PARTS]
        found = report.summary(results, names, SYSTEMS, WITH)
        report.print_quality(console, found, {}, SYSTEMS, WITH)
        figures["impressions"][size] = dict(zip(PARTS, found.values(), strict=True))
    publish(figures, seeds, options.out, results.commits())


def part_name(part: str, size: int) -> str:
    """Return the stored name of the queries of a part after a log of this size."""
    return f"{part} after {size}"


class Measuring:
    """The measurement of one shop after a log of one size."""

    def __init__(self, one: TestSet, seed: int, size: int, results: Measurements, console: Console) -> None:
        self.seed, self.size = seed, size
        self.new = one.documents[::NEW]
        arriving = {document["id"] for document in self.new}
        self.before = replace(
            one,
            documents=[document for document in one.documents if document["id"] not in arriving],
            train=_without(one.train, arriving),
            test=_without(one.test, arriving),
        )
        self.after = replace(one, test={query: of for query, of in one.test.items() if query.startswith(UNSEEN_PREFIX)})
        self._results, self._console = results, console
        for part in PARTS:
            queries = [f"{part} {number}" for number in range(len(self._queries(part)))]
            results.open_set(part_name(part, size), len(one.documents), len(one.train), queries)

    def is_missing(self, system: str) -> bool:
        """Return whether a system is not measured yet."""
        return not self._results.has(part_name(PARTS[0], self.size), system, self.seed, settings())

    def keep(self, found: Found, parts: Sequence[str]) -> None:
        """Measure the rankings of a system on parts of the test queries; store and print the measures."""
        test = self.after.test if ARRIVED in parts else self.before.test
        values = measure_run(found.run, test, MEASURES)
        about = {"settings": settings(), "commit": commit(), "cost": found.cost, "facts": found.facts}
        for part in parts:
            own = {
                measure: {f"{part} {number}": of[query] for number, query in enumerate(self._queries(part))}
                for measure, of in values.items()
            }
            name = part_name(part, self.size)
            self._results.put(name, found.system, self.seed, own, **about)
            report.print_found(self._console, name, found, own)

    def _queries(self, part: str) -> list[str]:
        """Return the test queries of a part, in order; queries of different shops are paired by their numbers."""
        judged = self.after.test if part == ARRIVED else self.before.test
        prefix = UNSEEN_PREFIX if part == ARRIVED else part
        return sorted(query for query in judged if query.startswith(prefix))[:MEASURED]


def _without(judged: dict[str, dict[str, int]], documents: set[str]) -> dict[str, dict[str, int]]:
    """Return judgments without these documents, and without queries that have no others."""
    left = {
        query: {document: grade for document, grade in grades.items() if document not in documents}
        for query, grades in judged.items()
    }
    return {query: grades for query, grades in left.items() if grades}


def measure(measuring: Measuring, encoder: Encoder, peers: bool) -> None:
    """Measure every missing system on one shop."""
    old = PARTS[:-1]
    for system, fields in ((WITHOUT, ()), (WITH, FIELDS)):
        if not measuring.is_missing(system):
            continue
        with opened(measuring.before, encoder, KEYS, fields) as (runtime, state):
            untrained = searched(runtime, state, measuring.before)
            (log,) = logs(runtime, state, measuring.before, Traffic(), measuring.seed, [measuring.size])
            record, cost = train(runtime, state, measuring.seed, promote="never")
            version, facts = record["model_version"], {"promoted": record["decision"]["promote"]}
            priors = record["report"]["priors"]
            facts |= {"penalty": priors["chosen"], "validation_ndcg": priors["validation_ndcg"]}
            measuring.keep(
                Found(system, log.seed, searched(runtime, state, measuring.before, version), cost, facts), old
            )
            if system == WITHOUT:
                measuring.keep(Found(UNTRAINED, log.seed, untrained, {}, {}), old)
                for found in theirs_from(log) if peers else ():
                    measuring.keep(found, old)
            ingest(runtime, state, measuring.new)
            run = searched(runtime, state, measuring.after, version)
            measuring.keep(Found(system, log.seed, run, cost, facts), [ARRIVED])
            if system == WITHOUT:
                run = searched(runtime, state, measuring.after, 0)
                measuring.keep(Found(UNTRAINED, log.seed, run, {}, {}), [ARRIVED])


def theirs_from(log: Log) -> Iterator[Found]:
    """Yield LambdaMART on the signals of our search, without and with the fields."""
    from benchmarks.peers.click_counts import CountedFeatures  # needs LightGBM
    from benchmarks.peers.lambdamart import InSequence

    with threadpool_limits(1):
        judged = as_judged(log.one, graded(log.feedback), document_ids(log.runtime, log.state))
        material, task = material_from(log, judged, 0.0), Task(seed=log.seed)
        plain, fielded = InSequence(material, task), InSequence(material, task)
        values = field_values(log)
        each = [np.broadcast_to(values, (len(split.texts), *values.shape)) for split in (material.train, material.test)]
        fielded._features = CountedFeatures(material, *each)
        fielded.columns = (*InSequence.columns, *FIELDS)  # type: ignore[misc]
        for system, peer in ((PEER, plain), (PEER_WITH, fielded)):
            facts = peer.learn()
            run = material.run(np.concatenate(list(peer.rank().values())))
            yield Found(system, log.seed, run, {}, facts)


def field_values(log: Log) -> Floats:
    """Return the fields (N, len(FIELDS)) of all documents: numbers as they are, categories by their numbers."""
    ids = document_ids(log.runtime, log.state)
    by_id = {document["id"]: document["metadata"] for document in log.one.documents}
    rows = [by_id[ids[row]] for row in log.state.generation.rows.tolist()]
    columns = []
    for field in FIELDS:
        values = [row[field] for row in rows]
        known = sorted(set(values), key=str)
        columns.append(values if isinstance(values[0], int | float) else [known.index(value) for value in values])
    return np.asarray(columns, np.float32).T


def parser() -> argparse.ArgumentParser:
    """Return the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impressions", default="1000,10000", help="comma-separated sizes of the log")
    parser.add_argument("--seeds", default="0", help="comma-separated; a seed controls shop, log and learning")
    parser.add_argument("--peers", action="store_true", help="also LambdaMART, which needs LightGBM")
    add_resume(parser)
    add_out(parser)
    return parser


if __name__ == "__main__":
    main()
