"""The promises of every candidate index (index/candidates/base.py). `brute_force` is the reference.

The tests of an index are a subclass of `CandidateIndexContract` that builds the index and sets the tolerance.
"""

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from index.candidates.base import MISSING, CandidateIndex
from index.records import Floats, Ints, Mask

AXES = np.eye(4, dtype=np.float32)
"""Four unit keys, one per axis: the score of key i is number i of the query."""


def brute_force(keys: Floats, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
    """Return the expected result of `search`, by a loop over queries and keys."""
    scores = np.full((len(queries), k), -np.inf, np.float32)
    positions = np.full((len(queries), k), MISSING, np.int64)
    for b, query in enumerate(queries):
        products = [
            (-sum(float(x) * float(y) for x, y in zip(query, key, strict=True)), position)
            for position, key in enumerate(keys)
            if allowed is None or allowed[position]
        ]
        for rank, (product, position) in enumerate(sorted(products)[:k]):
            scores[b, rank], positions[b, rank] = -product, position
    return scores, positions


def random_unit(count: int, dim: int, seed: int) -> Floats:
    """Return unit vectors (count, dim) in random directions."""
    vectors = np.random.default_rng(seed).normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class CandidateIndexContract(ABC):
    """Every promise of `CandidateIndex`. A subclass builds the index."""

    tolerance = 1e-6
    """The largest allowed difference between a score of unit vectors and the exact inner product."""

    @abstractmethod
    def build(self, keys: Floats) -> CandidateIndex:
        """Return an index over these keys (K, D)."""

    def test_it_counts_its_keys(self) -> None:
        assert self.build(AXES).count == 4
        assert self.build(AXES[:0]).count == 0

    def test_the_best_key_comes_first(self) -> None:
        scores, positions = self.build(AXES).search(np.asarray([[0.1, 0.8, -0.5, 0.3]], np.float32), 4)
        assert positions.tolist() == [[1, 3, 0, 2]]
        assert scores[0] == pytest.approx([0.8, 0.3, 0.1, -0.5], abs=1e-3)

    def test_fewer_results_than_keys_are_the_best_keys(self) -> None:
        _, positions = self.build(AXES).search(np.asarray([[0.1, 0.8, -0.5, 0.3]], np.float32), 2)
        assert positions.tolist() == [[1, 3]]

    def test_a_key_of_negative_score_is_still_found(self) -> None:
        scores, positions = self.build(AXES[:2]).search(np.asarray([[-1, -0.5, 0, 0]], np.float32), 2)
        assert positions.tolist() == [[1, 0]]
        assert scores[0] == pytest.approx([-0.5, -1.0], abs=1e-3)

    def test_scores_are_float32_and_positions_int64(self) -> None:
        scores, positions = self.build(AXES).search(AXES[:1], 2)
        assert (scores.dtype, positions.dtype) == (np.float32, np.int64)

    def test_a_row_with_fewer_keys_than_k_is_padded(self) -> None:
        scores, positions = self.build(AXES[:2]).search(AXES[:1], 4)
        assert positions.tolist() == [[0, 1, MISSING, MISSING]]
        assert scores[0, 2:].tolist() == [-np.inf, -np.inf]

    def test_an_empty_index_returns_padding(self) -> None:
        for allowed in (None, np.zeros(0, np.bool_)):
            scores, positions = self.build(AXES[:0]).search(AXES[:2], 3, allowed)
            assert positions.tolist() == [[MISSING] * 3] * 2
            assert scores.tolist() == [[-np.inf] * 3] * 2

    def test_only_allowed_keys_are_found(self) -> None:
        query = np.asarray([[0.1, 0.8, 0.5, 0.3]], np.float32)
        scores, positions = self.build(AXES).search(query, 3, np.asarray([True, False, False, True]))
        assert positions.tolist() == [[3, 0, MISSING]]
        assert scores[0] == pytest.approx([0.3, 0.1, -np.inf], abs=1e-3)

    def test_a_mask_may_have_any_length(self) -> None:
        keys = random_unit(19, 4, seed=1)
        for position in range(19):
            _, positions = self.build(keys).search(keys[:1], 2, np.arange(19) == position)
            assert positions.tolist() == [[position, MISSING]]

    def test_no_key_is_found_if_none_is_allowed(self) -> None:
        scores, positions = self.build(AXES).search(AXES[:1], 2, np.zeros(4, np.bool_))
        assert positions.tolist() == [[MISSING, MISSING]]
        assert scores.tolist() == [[-np.inf, -np.inf]]

    def test_a_mask_that_allows_all_keys_is_the_same_as_no_mask(self) -> None:
        index, queries = self.build(random_unit(50, 8, seed=2)), random_unit(3, 8, seed=3)
        plain, masked = index.search(queries, 5), index.search(queries, 5, np.ones(50, np.bool_))
        assert np.array_equal(plain[0], masked[0])
        assert np.array_equal(plain[1], masked[1])

    def test_each_query_has_its_own_row(self) -> None:
        _, positions = self.build(AXES).search(AXES[[2, 0, 3]], 1)
        assert positions.tolist() == [[2], [0], [3]]

    def test_no_queries_give_no_rows(self) -> None:
        scores, positions = self.build(AXES).search(AXES[:0], 2)
        assert scores.shape == positions.shape == (0, 2)

    def test_a_query_may_have_any_length(self) -> None:
        scores, positions = self.build(AXES).search(np.asarray([[0, 30, 40, 0]], np.float32), 2)
        assert positions.tolist() == [[2, 1]]
        assert scores[0] == pytest.approx([40.0, 30.0], rel=1e-3)

    def test_a_search_changes_neither_queries_nor_mask(self) -> None:
        queries, allowed = AXES[:1].copy(), np.asarray([True, False, True, True])
        self.build(AXES).search(queries, 2, allowed)
        assert np.array_equal(queries, AXES[:1])
        assert allowed.tolist() == [True, False, True, True]

    @pytest.mark.parametrize("share_allowed", [None, 0.5, 0.02])
    def test_agrees_with_brute_force(self, share_allowed: float | None) -> None:
        keys, queries = random_unit(300, 16, seed=4), random_unit(5, 16, seed=5)
        allowed = None if share_allowed is None else np.random.default_rng(6).random(300) < share_allowed
        scores, positions = self.build(keys).search(queries, 12, allowed)
        expected, expected_positions = brute_force(keys, queries, 12, allowed)
        assert np.array_equal(positions == MISSING, expected_positions == MISSING)
        found = expected_positions != MISSING
        assert np.abs(scores[found] - expected[found]).max() <= self.tolerance
        exact = np.einsum("bd,bkd->bk", queries, keys[positions])
        assert np.abs(exact[found] - expected[found]).max() <= 2 * self.tolerance  # a near tie may be in another order

    def test_concurrent_searches_give_the_same_answers(self) -> None:
        index, queries = self.build(random_unit(500, 16, seed=7)), random_unit(64, 16, seed=8)
        mask = np.random.default_rng(9).random(500) < 0.5
        masks = [mask if b % 2 else ~mask for b in range(64)]
        alone = [index.search(queries[b : b + 1], 10, masks[b]) for b in range(64)]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda b: index.search(queries[b : b + 1], 10, masks[b]), range(64)))
        for (scores, positions), (other_scores, other_positions) in zip(alone, together, strict=True):
            assert np.array_equal(scores, other_scores)
            assert np.array_equal(positions, other_positions)
