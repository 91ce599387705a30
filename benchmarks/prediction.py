"""Metadata fields predicted from a query by the attention weights of all candidates, beside simpler predictions.

    python -m benchmarks.prediction --data ../shared/data --out benchmarks/results/prediction.json

The sets have no metadata, so the benchmark makes fields. `group` is the title of a document where titles repeat (the
article of a paragraph), else the first word of the title (mostly a brand). `words` is the number of words of the text.
The truth of a query is the distribution of the field over its relevant documents, weighted by grade, and the mean for
the number. Compared systems: the most common value of the collection (the mean for the number), an equal vote of the
ten best of a dense search, and attention. Reported are accuracy (the first value belongs to a relevant document), the
Brier score of the distribution (0 best, 2 worst) and the mean absolute error. The model is untrained. Vectors come from
a cache after the first run (benchmarks/vectors.py).
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet, ingest, read_set
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.encoding.encoder import Encoder
from service.runtime.collection import CollectionState
from service.runtime.collection_settings import CollectionSettings
from service.runtime.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.settings import Settings

NEIGHBOURS = 10
Weights = Mapping[Any, float]


def main() -> None:
    """Run the benchmark on the sets asked for; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="squad_dev,chorus,crowdflower", help="comma-separated; sets with titles")
    parser.add_argument("--queries", type=int, default=400, help="number of test queries, at most")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    options = parser.parse_args()
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    results = {
        name: measure_set(read_set(options.data / name), encoder, options.queries, options.seed)
        for name in options.sets.split(",")
    }
    print_table(Console(width=140), results)
    publish({"sets": results}, [options.seed], options.out)


def measure_set(one: TestSet, encoder: Encoder, queries: int, seed: int) -> dict[str, Any]:
    """Return the measures of each system on one set's test queries."""
    fields = fields_of(one.documents)
    documents = [document | {"metadata": fields[document["id"]]} for document in one.documents]
    names = sorted(one.test)
    if len(names) > queries:
        names = [names[at] for at in sorted(np.random.default_rng(seed).choice(len(names), queries, replace=False))]
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings())
            ingest(runtime, state, documents)
            found = [_predicted(runtime, state, one, name, fields) for name in names]
        finally:
            runtime.close()
    groups = Counter(field["group"] for field in fields.values())
    common = {"most common": {value: count / len(fields) for value, count in groups.items()}}
    mean = {"most common": float(np.mean([field["words"] for field in fields.values()]))}
    rows = [(true, common | guessed, mean | number) for true, guessed, number, _ in found]
    sizes = [size for *_, size in found]
    return {
        "queries": len(names),
        "groups": len(groups),
        "effective_sample_size": round(float(np.median(sizes)), 1),
        "systems": {name: measures(name, rows) for name in ("most common", "nearest ten", "attention")},
    }


def fields_of(documents: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return document id -> its generated metadata."""
    titles = [document["title"] or "" for document in documents]
    whole = len(set(titles)) < len(titles) / 4
    groups = [title if whole else (title.split() or [""])[0].lower() for title in titles]
    return {
        document["id"]: {"group": group, "words": len(document["text"].split())}
        for document, group in zip(documents, groups, strict=True)
    }


def measures(system: str, rows: Sequence[tuple[Any, Any, Any]]) -> dict[str, float]:
    """Return accuracy and Brier score of the group, mean absolute error of the number of words."""
    right, brier, error = [], [], []
    for (truth, number), distributions, numbers in rows:
        guess: Weights = distributions[system]
        right.append(truth.get(max(guess, key=lambda value: guess[value]), 0) > 0 if guess else False)
        brier.append(sum((guess.get(value, 0) - truth.get(value, 0)) ** 2 for value in guess.keys() | truth.keys()))
        error.append(abs(numbers[system] - number))
    return {
        name: round(float(np.mean(values)), 4)
        for name, values in (("accuracy", right), ("Brier", brier), ("error", error))
    }


def _predicted(
    runtime: Runtime, state: CollectionState, one: TestSet, name: str, fields: Mapping[str, dict[str, Any]]
) -> tuple[tuple[Weights, float], dict[str, Weights], dict[str, float], float]:
    """Return the truth of a query, each system's distribution and number, and the effective sample size."""
    q, predict = one.queries[name][:2048], ["group", "words"]
    grades = {document: grade for document, grade in one.test[name].items() if grade > 0 and document in fields}
    attended = answer(runtime, state, SearchIn(q=q, log=False, predict=predict))["predictions"]
    nearest = answer(runtime, state, SearchIn(q=q, log=False, mode="dense", limit=NEIGHBOURS))["hits"]
    ten = [orjson.loads(orjson.dumps(hit["metadata"])) for hit in nearest]  # metadata is a fragment of JSON
    distributions = {
        "attention": {each["value"]: each["weight"] for each in attended["group"]["distribution"]},
        "nearest ten": _shares([(hit["group"], 1.0) for hit in ten]),
    }
    numbers = {"attention": attended["words"]["mean"], "nearest ten": float(np.mean([hit["words"] for hit in ten]))}
    truth = _shares([(fields[document]["group"], float(grade)) for document, grade in grades.items()])
    words = np.average([fields[document]["words"] for document in grades], weights=list(grades.values()))
    return (truth, float(words)), distributions, numbers, attended["group"]["effective_sample_size"]


def _shares(pairs: Sequence[tuple[Any, float]]) -> dict[Any, float]:
    total = sum(weight for _, weight in pairs)
    shares: dict[Any, float] = {}
    for value, weight in pairs:
        shares[value] = shares.get(value, 0.0) + weight / total
    return shares


def print_table(console: Console, results: Mapping[str, Any]) -> None:
    """Print a row per set and system."""
    table = Table(title="Fields predicted from queries")
    for column in ("set", "groups", "effective documents", "system", "accuracy", "Brier", "error in words"):
        table.add_column(column)
    for name, one in results.items():
        for system, values in one["systems"].items():
            table.add_row(
                name,
                str(one["groups"]),
                str(one["effective_sample_size"]),
                system,
                f"{values['accuracy']:.3f}",
                f"{values['Brier']:.3f}",
                f"{values['error']:.1f}",
            )
    console.print(table)


if __name__ == "__main__":
    main()
