"""Baselines with no learning, or a single chosen number: BM25, dense, RRF and the best fixed fusion.

They rank every document by the same keys and the same word index as our search, so that only rankings differ.
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.collections import TestSet, document_ids
from benchmarks.peers.material import Grades, Keys, Material, Split
from benchmarks.peers.ranking import Ndcg, best, best_fusion, fused, ranks
from index.generation.generation import Generation
from index.records import Floats, Ints, KeyKind
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime

BASELINES = ("bm25", "dense", "rrf", "best fixed fusion")
RRF_K = 60
RRF_DEPTH = 1000
FUSION_QUERIES = 1500
"""Number of train queries that choose the best fixed fusion, at most."""
DEPTH = 100
BLOCK = 512


def gather(runtime: Runtime, state: CollectionState, one: TestSet, whole: bool, test: Split | None = None) -> Material:
    """Return the collection with its signals and the best fixed fusion.

    whole: with all train queries, as peers need them. test: the test split, if it is already computed.
    """
    generation = state.generation
    by_row = document_ids(runtime, state)
    ids = [by_row[row] for row in generation.rows.tolist()]
    keys = Keys(generation.keys, generation.columns.key_kind, generation.key_doc_index)
    documents = {document["id"]: document for document in one.documents}
    started = time.perf_counter()
    queries = sorted(one.train)
    rows = sample(len(queries), FUSION_QUERIES)
    if not whole:
        queries, rows = [queries[row] for row in rows], np.arange(len(rows))
    train = _split(runtime, generation, keys, one, queries)
    grades = _grades(one, queries, ids)
    gains = grades.matrix(len(queries), len(ids))[rows].toarray()
    fusion, _ = best_fusion(train.dense[rows], train.words[rows], Ndcg(gains))
    seconds = time.perf_counter() - started
    test = test or _split(runtime, generation, keys, one, sorted(one.test))
    titles, texts = ([documents[id_][part] or "" for id_ in ids] for part in ("title", "text"))
    sequences = (generation.columns.tokens, generation.columns.first_token)
    return Material(ids, titles, texts, keys, *sequences, train, test, grades, fusion, seconds)


def baselines(material: Material) -> Iterator[tuple[str, Ints]]:
    """Yield each baseline with its best doc indices (S, DEPTH) for the test queries."""
    test = material.test
    yield "bm25", best(test.words, DEPTH)
    yield "dense", best(test.dense, DEPTH)
    starts = range(0, len(test.queries), BLOCK)
    blocks = [reciprocal_rank_fusion(test.dense[at : at + BLOCK], test.words[at : at + BLOCK]) for at in starts]
    yield "rrf", np.concatenate([best(scores, DEPTH) for scores in blocks])
    yield "best fixed fusion", best(fused(material.fusion, test.dense, test.words), DEPTH)


def reciprocal_rank_fusion(dense: Floats, words: Floats) -> Floats:
    """Return the RRF score of each document (Cormack et al. 2009), k = 60 over the first 1,000 of each list."""
    total = np.zeros(dense.shape, np.float32)
    for scores, nothing in ((dense, -1.0), (words, 0.0)):
        rank = ranks(scores)
        total += np.where((rank < RRF_DEPTH) & (scores > nothing), 1.0 / (RRF_K + 1 + rank), 0.0)
    return total


def sample(count: int, most: int) -> Ints:
    """Return at most `most` of `count` rows, ascending, always the same ones."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _split(runtime: Runtime, generation: Generation, keys: Keys, one: TestSet, queries: Sequence[str]) -> Split:
    texts = [one.queries[query] for query in queries]
    vectors = runtime.encoder.encode_queries(texts)
    count = len(generation.rows)
    kinds = (KeyKind.PASSAGE, KeyKind.SENTENCE, KeyKind.TITLE)
    dense, sentence, title = (keys.of(kind).best(vectors, count) for kind in kinds)
    words = np.zeros((len(queries), count), np.float32)
    for at, text in enumerate(texts):
        rows, scores = generation.words.search(text, count)
        words[at, generation.doc_indices(rows)] = scores
    asked = [generation.words.read(text).words for text in texts]
    first = np.cumsum([0, *(len(words.of_query) for words in asked)])
    numbers = np.concatenate([words.words[words.of_query] for words in asked])
    weights = np.concatenate([words.weight[words.of_query] for words in asked])
    return Split(list(queries), texts, vectors, dense, sentence, title, words, numbers, weights, first)


def _grades(one: TestSet, queries: Sequence[str], ids: Sequence[str]) -> Grades:
    doc_index = {id_: at for at, id_ in enumerate(ids)}
    found = [
        (row, doc_index[document], grade)
        for row, query in enumerate(queries)
        for document, grade in one.train[query].items()
        if document in doc_index
    ]
    rows, doc_indices, grades = np.asarray(found, np.int64).reshape(-1, 3).T
    return Grades(rows, doc_indices, grades)
