"""Every index passes the contract; further promises of each index; the choice by the number of keys."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index.candidates.build import read_sealed, seal
from index.candidates.exact import ExactIndex
from index.candidates.int8 import Int8Index
from index.candidates.pq4 import PQ4Index
from index.candidates.refined import FEW_SHARE, RefinedIndex
from index.records import Floats, Ints
from tests.contracts.candidate_index import AXES, CandidateIndexContract, random_unit


def clustered(count: int, seed: int) -> Floats:
    """Return unit vectors (count, 32) around 20 fixed directions."""
    chance = np.random.default_rng(seed)
    vectors = random_unit(20, 32, seed=0)[chance.integers(20, size=count)] + 0.15 * chance.normal(size=(count, 32))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def overlap(found: Ints, truth: Ints) -> float:
    """Return the mean share of the true positions that were found."""
    return float(np.mean([len(np.intersect1d(*pair)) / len(pair[1]) for pair in zip(found, truth, strict=True)]))


class TestExactIndex(CandidateIndexContract):
    def build(self, keys: Floats) -> ExactIndex:
        return ExactIndex(keys)

    def test_ties_go_to_the_lower_position(self) -> None:
        keys = AXES[[1, 0, 1, 0, 0]]
        _, positions = ExactIndex(keys).search(AXES[:1], 4)
        assert positions.tolist() == [[1, 3, 4, 0]]
        _, positions = ExactIndex(np.repeat(AXES, 100, axis=0)).search(AXES[[2]], 150)
        assert positions.tolist() == [[*range(200, 300), *range(50)]]


class RefinedIndexContract(CandidateIndexContract):
    """The further promises of every index that scans compressed keys."""

    build: Callable[..., RefinedIndex]

    def test_the_100_nearest_of_20000_keys_are_found(self) -> None:
        keys, queries = clustered(20_000, seed=1), clustered(50, seed=2)
        _, truth = ExactIndex(keys).search(queries, 100)
        _, found = self.build(keys).search(queries, 100)
        assert overlap(found, truth) >= 0.99

    @pytest.mark.parametrize("share", [0.5, 0.1])
    def test_the_nearest_allowed_keys_are_found(self, share: float) -> None:
        keys, queries = clustered(20_000, seed=3), clustered(50, seed=4)
        allowed = np.random.default_rng(5).random(len(keys)) < share
        _, truth = ExactIndex(keys).search(queries, 100, allowed)
        _, found = self.build(keys).search(queries, 100, allowed)
        assert allowed[found].all()
        assert overlap(found, truth) >= 0.99

    def test_few_allowed_keys_are_all_scored_exactly(self) -> None:
        keys = clustered(5_000, seed=6)
        index = self.build(keys)
        allowed = np.arange(len(keys)) % (len(keys) // int(10 * index.refined) + 1) == 0
        assert 10 < allowed.sum() <= 10 * index.refined
        scores, found = index.search(keys[:3], 10, allowed)
        truth_scores, truth = ExactIndex(keys).search(keys[:3], 10, allowed)
        assert np.array_equal(found, truth)
        assert np.allclose(scores, truth_scores, atol=1e-6)

    def test_a_small_allowed_share_of_many_keys_is_scored_exactly_without_a_scan(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = clustered(20_000, seed=7)
        index = self.build(keys)
        monkeypatch.setattr(index, "_scan", None)  # a scan would fail
        allowed = np.arange(len(keys)) % (FEW_SHARE + 1) == 5
        assert allowed.sum() > 10 * index.refined
        _, found = index.search(keys[:3], 10, allowed)
        _, truth = ExactIndex(keys).search(keys[:3], 10, allowed)
        assert np.array_equal(found, truth)

    def test_scores_are_exact_inner_products(self) -> None:
        keys, queries = clustered(5_000, seed=8), 3 * clustered(4, seed=9)
        scores, found = self.build(keys).search(queries, 50)
        assert np.allclose(scores, np.einsum("bd,bkd->bk", queries, keys[found]), atol=1e-5)
        assert (np.diff(scores, axis=1) <= 0).all()

    def test_several_queries_at_once_are_answered_as_each_alone(self) -> None:
        keys, queries = clustered(5_000, seed=10), clustered(4, seed=11)
        index = self.build(keys)
        together = index.search(queries, 20)
        for head in range(4):
            alone = index.search(queries[head : head + 1], 20)
            assert np.array_equal(together[0][head], alone[0][0])
            assert np.array_equal(together[1][head], alone[1][0])

    def test_the_same_keys_give_the_same_file_in_one_or_several_additions(self, tmp_path: Path) -> None:
        keys = clustered(1_500, seed=12)
        grown: RefinedIndex | None = None
        for count in (1, 700, 1_100, 1_101, 1_500):
            grown = type(self.build(AXES)).build(keys[:count], keys.__getitem__, grown)
        for index in (grown, self.build(keys), self.build(keys)):
            index.save(tmp_path / f"{id(index)}.faiss")
        assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1

    def test_only_keys_that_the_previous_index_lacks_are_added(self) -> None:
        keys = clustered(1_000, seed=13)
        before = self.build(keys[:300])
        zeroed = keys.copy()
        zeroed[:300] = 0
        after = type(before).build(zeroed, keys.__getitem__, before)
        assert (before.count, after.count) == (300, 1_000)
        assert np.array_equal(after.search(keys[:5], 20)[1], self.build(keys).search(keys[:5], 20)[1])

    def test_a_saved_index_gives_the_same_answers(self, tmp_path: Path) -> None:
        keys, queries = clustered(500, seed=1), clustered(4, seed=2)
        index = self.build(keys)
        index.save(tmp_path / "dense.faiss")
        loaded = read_sealed(tmp_path / "dense.faiss", keys.__getitem__)
        assert (type(loaded), loaded.count) == (type(index), 500)
        for before, after in zip(index.search(queries, 5), loaded.search(queries, 5), strict=True):
            assert np.array_equal(before, after)

    def test_an_empty_index_can_be_saved_and_read(self, tmp_path: Path) -> None:
        self.build(AXES[:0]).save(tmp_path / "dense.faiss")
        assert read_sealed(tmp_path / "dense.faiss", AXES.__getitem__).count == 0

    def test_keys_may_be_a_strided_view(self) -> None:
        wide = np.zeros((400, 64), np.float32)
        wide[:, ::2] = keys = clustered(400, seed=18)
        _, positions = self.build(wide[:, ::2]).search(keys[[2]], 1)
        assert positions.tolist() == [[2]]


class TestInt8Index(RefinedIndexContract):
    def build(self, keys: Floats) -> Int8Index:
        return Int8Index.build(keys, keys.__getitem__)

    def test_clipped_keys_are_found(self) -> None:
        keys = np.concatenate([np.eye(32, dtype=np.float32), clustered(2_000, seed=19)])
        _, found = self.build(keys).search(keys[:32], 1)
        assert found[:, 0].tolist() == list(range(32))

    @pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
    def test_the_length_of_a_query_does_not_change_the_order(self, length: float) -> None:
        keys, queries = clustered(2_000, seed=20), clustered(5, seed=21)
        _, wanted = self.build(keys).search(queries, 20)
        _, found = self.build(keys).search(np.float32(length) * queries, 20)
        assert np.array_equal(found, wanted)

    def test_a_query_of_zeros_finds_keys_with_score_zero(self) -> None:
        keys = clustered(2_000, seed=22)
        scores, found = self.build(keys).search(np.zeros((1, 32), np.float32), 5)
        assert scores.tolist() == [[0.0] * 5]
        assert (found >= 0).all()


class TestPQ4Index(RefinedIndexContract):
    def build(self, keys: Floats) -> PQ4Index:
        return PQ4Index.build(keys, keys.__getitem__)

    def test_keys_unlike_the_training_keys_are_found(self) -> None:
        keys, queries = clustered(4_000, seed=16), clustered(50, seed=17)
        keys = np.ascontiguousarray(
            keys[np.argsort(keys[:, 0])]
        )  # training uses the first quarter: one side of the space
        _, truth = ExactIndex(keys).search(queries, 20)
        _, found = self.build(keys).search(queries, 20)
        assert overlap(found, truth) >= 0.99

    def test_twice_as_many_keys_are_refined_in_a_very_large_index(self, monkeypatch: pytest.MonkeyPatch) -> None:
        few = self.build(clustered(100, seed=24)).refined
        monkeypatch.setattr("index.candidates.pq4.MANY", 100)
        assert [self.build(clustered(count, seed=24)).refined for count in (99, 100)] == [few, 2 * few]


# --- The choice ---


def test_few_keys_are_scanned_in_8_bits_and_many_in_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.candidates.build.PQ4_FROM", 100)
    keys = clustered(150, seed=14)
    kinds = [type(seal(keys[:count], keys.__getitem__)) for count in (0, 99, 100, 150)]
    assert kinds == [Int8Index, Int8Index, PQ4Index, PQ4Index]


def test_an_extended_index_gives_the_same_answers_as_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.candidates.build.PQ4_FROM", 100)
    keys, index = clustered(300, seed=15), None
    for count in (0, 10, 60, 99, 120, 200, 255, 256, 300):
        index = seal(keys[:count], keys.__getitem__, index)
        fresh = seal(keys[:count], keys.__getitem__)
        assert type(index) is type(fresh)
        for one, other in zip(index.search(keys[-3:], 9), fresh.search(keys[-3:], 9), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("count", [50, 150])
def test_a_saved_index_is_read_with_its_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("index.candidates.build.PQ4_FROM", 100)
    keys = clustered(count, seed=16)
    index = seal(keys, keys.__getitem__)
    index.save(tmp_path / "dense.faiss")
    again = read_sealed(tmp_path / "dense.faiss", keys.__getitem__)
    assert (type(again), again.count) == (type(index), count)
    for one, other in zip(index.search(keys[:5], 3), again.search(keys[:5], 3), strict=True):
        assert np.array_equal(one, other)
