"""Exact scores: a pair has the same bits in every call, independent of the other rows in the call."""

import numpy as np
import pytest

from index.candidates.exact import ExactIndex
from index.candidates.inner_products import inner_products, row_products
from index.ranking.array_api import pair_products, project_rows
from index.words.query_words import QueryWords
from index.words.term_matching import bm25, find_words, match
from tests.index.fixtures import random_vectors

WIDTHS = (1, 3, 8, 17, 384)
PIECES = (1, 2, 3, 5, 7, 64)


@pytest.mark.parametrize("dim", WIDTHS)
@pytest.mark.parametrize("piece", PIECES)
def test_a_row_has_the_same_bits_in_a_call_of_any_size(dim: int, piece: int) -> None:
    vectors, query = random_vectors(200, dim, seed=dim), random_vectors(1, dim, seed=1)[0]
    whole = inner_products(vectors, query)
    parts = [inner_products(vectors[at : at + piece], query) for at in range(0, 200, piece)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize("dim", WIDTHS)
def test_a_batch_of_queries_gives_the_bits_of_single_queries(dim: int) -> None:
    vectors, queries = random_vectors(50, dim, seed=dim), random_vectors(5, dim, seed=2)
    together = row_products(vectors, queries)
    assert together.tobytes() == np.stack([inner_products(vectors, one) for one in queries], axis=1).tobytes()


@pytest.mark.parametrize("dim", WIDTHS)
def test_the_product_agrees_with_a_slow_loop(dim: int) -> None:
    vectors, query = random_vectors(20, dim, seed=dim), random_vectors(1, dim, seed=3)[0]
    slow = [sum(float(a) * float(b) for a, b in zip(vector, query, strict=True)) for vector in vectors]
    np.testing.assert_allclose(inner_products(vectors, query), slow, atol=1e-6)


def test_a_pair_has_the_same_bits_in_a_batch_and_alone() -> None:
    keys, queries = random_vectors(60, 384, seed=4), random_vectors(6, 384, seed=5).reshape(3, 2, 384)
    pair_query, pair_key = np.repeat(np.arange(3), 20), np.random.default_rng(0).permutation(60)
    batch = pair_products(queries, keys, pair_query, pair_key)
    for at, (query, key) in enumerate(zip(pair_query, pair_key, strict=True)):
        alone = pair_products(queries[[query]], keys[[key]], np.zeros(1, np.int64), np.zeros(1, np.int64))
        assert batch[at].tobytes() == alone[0].tobytes()


def test_pairs_of_a_single_query_may_repeat_keys_and_come_in_any_order() -> None:
    keys, query = random_vectors(6, 384, seed=4), random_vectors(2, 384, seed=5).reshape(1, 2, 384)
    for pair_key in ([0, 1, 2, 3, 4, 5], [5, 1, 2, 3, 4, 0], [0, 0, 2, 3, 4, 5], [3], []):
        chosen = np.asarray(pair_key, np.int64)
        products = pair_products(query, keys, np.zeros(len(chosen), np.int64), chosen)
        assert products.tobytes() == row_products(keys[chosen], query[0]).tobytes()


def test_a_projected_row_has_the_same_bits_alone() -> None:
    rows, matrices = random_vectors(30, 384, seed=6), random_vectors(2 * 384, 16, seed=7).reshape(2, 384, 16)
    together = project_rows(rows[None], matrices)
    np.testing.assert_allclose(together, rows @ matrices, atol=1e-5)
    for at in range(30):
        assert project_rows(rows[None, [at]], matrices).tobytes() == together[:, [at]].tobytes()


def test_equal_keys_are_equally_near_at_any_position() -> None:
    keys = random_vectors(203, 384, seed=8)
    keys[[1, 77, 202]] = keys[50]
    scores, found = ExactIndex(keys).search(keys[[50]], 4)
    assert sorted(found[0].tolist()) == [1, 50, 77, 202]
    assert found[0].tolist() == [1, 50, 77, 202]  # ties go to the lower position
    assert len(set(scores[0].tolist())) == 1


def test_the_word_evidence_of_a_document_does_not_depend_on_other_documents() -> None:
    random = np.random.default_rng(9)
    words, first = random.integers(0, 12, 40 * 25).astype(np.uint32), np.arange(41) * 25
    idf = random.random(7).astype(np.float32) + np.float32(0.1)
    query = QueryWords.of(np.arange(7, dtype=np.uint32), idf)
    found = find_words(query, words, first, np.arange(40))
    scores, matches = bm25(query, found, 25.0), match(query, found)
    for doc_index in range(40):
        alone = find_words(query, words, first, np.asarray([doc_index]))
        assert bm25(query, alone, 25.0)[0].tolist() == scores[doc_index].tolist()
        assert [one[0] for one in match(query, alone)] == [one[doc_index] for one in matches]
