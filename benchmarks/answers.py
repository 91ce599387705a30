"""The closest sentence: how often it contains the answer, beside dense retrieval and BM25 of sentences.

    python -m benchmarks.answers --data ../shared/data --out benchmarks/results/answers.json

160 questions of squad_dev have answers that were written for this benchmark by reading the paragraphs
(benchmarks/answers_squad_dev.tsv). A sentence is right if it contains an answer, compared in lower case. The way in
which sentences get their weight was chosen on the 60 questions of the train split; the 100 of the test split are
reported. All systems choose among the same stored sentences of the whole collection, but for the system without
sentence keys, which cuts and encodes the sentences of the best passages.
"""

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.collections import TestSet, document_ids, opened, post_train_judgments, read_set
from benchmarks.ours import train
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import on_one_thread
from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.ranking.retrieval import Query, read_query
from index.records import Floats, KeyKind
from index.words.query_words import Words
from index.words.term_matching import bm25, find_words
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.settings import Settings

SET = "squad_dev"
LABELS = Path(__file__).with_name("answers_squad_dev.tsv")
STORED, ENCODED = ("title", "passage", "sentence"), ("title", "passage")
"""The kinds of keys with sentences, and without: the sentences of the best passages are then encoded in the search."""
OURS = "closest sentence, trained"
Right = dict[str, float]
"""Query -> 1.0 if the sentence contains the answer, else 0.0."""


def labels(split: str) -> dict[str, list[str]]:
    """Return query -> its answers in lower case."""
    with LABELS.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return {row["query"]: row["answers"].lower().split("|") for row in rows if row["split"] == split}


def right(found: Mapping[str, str], answers: Mapping[str, list[str]]) -> Right:
    """Return whether each sentence contains an answer of its query."""
    return {query: float(any(one in found[query].lower() for one in answers[query])) for query in answers}


def ours(runtime: Runtime, state: CollectionState, texts: Mapping[str, str]) -> dict[str, str]:
    """Return query -> the sentence that a search answers with."""
    found = {}
    for query, text in texts.items():
        closest = answer(runtime, state, SearchIn(q=text, answer=True, log=False))["answer"]
        found[query] = closest["text"] if closest else ""
    return found


def sentences_of(one: TestSet, state: CollectionState, ids: Mapping[int, str]) -> tuple[list[str], Floats]:
    """Return the texts (S,) and vectors (S, D) of the stored sentences of a collection."""
    generation, texts = state.generation, {document["id"]: document["text"] for document in one.documents}
    keys = np.flatnonzero(generation.columns.key_kind == KeyKind.SENTENCE)
    rows = generation.rows[generation.key_doc_index[keys]].tolist()
    spans = zip(generation.columns.key_start[keys].tolist(), generation.columns.key_end[keys].tolist(), strict=True)
    own = [texts[ids[row]][start:end] for row, (start, end) in zip(rows, spans, strict=True)]
    return own, generation.key_vectors(keys)


def by_words(generation: Generation, sentences: list[str]) -> Callable[[str], int]:
    """Return a function from a query to the sentence with the best BM25 score."""
    numbered: list[Words] = [generation.words.number(text) for text in sentences]
    lengths = [len(one) for one in numbered]
    words, first = np.concatenate(numbered), np.concatenate([[0], np.cumsum(lengths)])

    def best(text: str) -> int:
        reading = read_query(generation, Query(text, np.zeros(generation.dim, np.float32)))
        found = find_words(reading.words, words, first, np.arange(len(lengths)))
        return int(np.argmax(bm25(reading.words, found, float(np.mean(lengths))).sum(axis=1)))

    return best


def measured(
    runtime: Runtime, state: CollectionState, one: TestSet, texts: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the systems that search a collection with sentence keys, with their sentences."""
    sentences, vectors = sentences_of(one, state, document_ids(runtime, state))
    encoded = dict(zip(texts, runtime.encoder.encode_queries(list(texts.values())), strict=True))
    yield "dense sentence retrieval", {query: sentences[int(np.argmax(vectors @ encoded[query]))] for query in texts}
    best = by_words(state.generation, sentences)
    yield "BM25 of sentences", {query: sentences[best(text)] for query, text in texts.items()}
    yield "closest sentence", ours(runtime, state, texts)
    post_train_judgments(runtime, state, one)
    train(runtime, state, 0)
    yield OURS, ours(runtime, state, texts)


def main() -> None:
    """Measure every system and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--split", choices=("train", "test"), default="test")
    add_out(parser)
    options = parser.parse_args()
    on_one_thread()
    one, answers = read_set(options.data / SET), labels(options.split)
    texts = {query: one.queries[query] for query in answers}
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    found: dict[str, dict[str, str]] = {}
    with opened(one, encoder, ENCODED) as (runtime, state):
        found["closest sentence, without sentence keys"] = ours(runtime, state, texts)
    with opened(one, encoder, STORED) as (runtime, state):
        found |= measured(runtime, state, one, texts)
    scored = {system: right(own, answers) for system, own in found.items()}
    figures = {system: facts(scored[system], scored[OURS], found[system]) for system in scored}
    for system, each in figures.items():
        Console(width=140).print(system, each)
    publish({"set": SET, "split": options.split, "queries": len(answers), "systems": figures}, [0], options.out)


def facts(own: Right, best: Right, sentences: Mapping[str, str]) -> dict[str, Any]:
    """Return the share of right sentences, ours minus it with the interval, and the mean length of a sentence."""
    difference = compare("contains the answer", own, best)
    return {
        "right": round(float(np.mean(list(own.values()))), 4),
        "ours_minus": [round(one, 4) for one in (difference.difference, difference.low, difference.high)],
        "characters": round(float(np.mean([len(text) for text in sentences.values()]))),
    }


if __name__ == "__main__":
    main()
