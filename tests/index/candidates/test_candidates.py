"""Every index keeps the contract; what each adds of its own, and which is chosen for how many keys."""

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
    """Return unit vectors (count, 32) around 20 directions, which are always the same."""
    chance = np.random.default_rng(seed)
    vectors = random_unit(20, 32, seed=0)[chance.integers(20, size=count)] + 0.15 * chance.normal(size=(count, 32))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def overlap(found: Ints, truth: Ints) -> float:
    """Return the mean share of the truth that was found."""
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
    """What holds for every index that scans a short form of the keys."""

    build: Callable[..., RefinedIndex]

    def test_the_hundred_nearest_of_many_are_found(self) -> None:
        keys, queries = clustered(20_000, seed=1), clustered(50, seed=2)
        _, truth = ExactIndex(keys).search(queries, 100)
        _, found = self.build(keys).search(queries, 100)
        assert overlap(found, truth) >= 0.99

    @pytest.mark.parametrize("share", [0.5, 0.1])
    def test_the_nearest_of_those_that_are_allowed_are_found(self, share: float) -> None:
        keys, queries = clustered(20_000, seed=3), clustered(50, seed=4)
        allowed = np.random.default_rng(5).random(len(keys)) < share
        _, truth = ExactIndex(keys).search(queries, 100, allowed)
        _, found = self.build(keys).search(queries, 100, allowed)
        assert allowed[found].all()
        assert overlap(found, truth) >= 0.99

    def test_where_few_are_allowed_all_of_them_are_scored_exactly(self) -> None:
        keys = clustered(5_000, seed=6)
        index = self.build(keys)
        allowed = np.arange(len(keys)) % (len(keys) // int(10 * index.refined) + 1) == 0
        assert 10 < allowed.sum() <= 10 * index.refined
        scores, found = index.search(keys[:3], 10, allowed)
        truth_scores, truth = ExactIndex(keys).search(keys[:3], 10, allowed)
        assert np.array_equal(found, truth)
        assert np.allclose(scores, truth_scores, atol=1e-6)

    def test_of_many_keys_a_small_share_is_scored_exactly_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = clustered(20_000, seed=7)
        index = self.build(keys)
        monkeypatch.setattr(index, "_scan", None)  # would be called, and fail
        allowed = np.arange(len(keys)) % (FEW_SHARE + 1) == 5
        assert allowed.sum() > 10 * index.refined
        _, found = index.search(keys[:3], 10, allowed)
        _, truth = ExactIndex(keys).search(keys[:3], 10, allowed)
        assert np.array_equal(found, truth)

    def test_scores_are_those_of_the_vectors_themselves(self) -> None:
        keys, queries = clustered(5_000, seed=8), 3 * clustered(4, seed=9)
        scores, found = self.build(keys).search(queries, 50)
        assert np.allclose(scores, np.einsum("bd,bkd->bk", queries, keys[found]), atol=1e-5)
        assert (np.diff(scores, axis=1) <= 0).all()

    def test_a_query_of_several_heads_is_answered_as_each_alone(self) -> None:
        keys, queries = clustered(5_000, seed=10), clustered(4, seed=11)
        index = self.build(keys)
        together = index.search(queries, 20)
        for head in range(4):
            alone = index.search(queries[head : head + 1], 20)
            assert np.array_equal(together[0][head], alone[0][0])
            assert np.array_equal(together[1][head], alone[1][0])

    def test_the_same_keys_give_the_same_bits_at_once_or_little_by_little(self, tmp_path: Path) -> None:
        keys = clustered(1_500, seed=12)
        grown: RefinedIndex | None = None
        for count in (1, 700, 1_100, 1_101, 1_500):
            grown = type(self.build(AXES))(keys[:count], keys.__getitem__, grown)
        for index in (grown, self.build(keys), self.build(keys)):
            index.save(tmp_path / f"{id(index)}.faiss")
        assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1

    def test_only_keys_beyond_those_of_the_one_before_are_added(self) -> None:
        keys = clustered(1_000, seed=13)
        before = self.build(keys[:300])
        spoilt = keys.copy()
        spoilt[:300] = 0
        after = type(before)(spoilt, keys.__getitem__, before)
        assert (before.count, after.count) == (300, 1_000)
        assert np.array_equal(after.search(keys[:5], 20)[1], self.build(keys).search(keys[:5], 20)[1])

    def test_a_saved_index_answers_as_before(self, tmp_path: Path) -> None:
        keys, queries = clustered(500, seed=1), clustered(4, seed=2)
        index = self.build(keys)
        index.save(tmp_path / "dense.faiss")
        loaded = read_sealed(tmp_path / "dense.faiss", keys.__getitem__)
        assert (type(loaded), loaded.count) == (type(index), 500)
        for before, after in zip(index.search(queries, 5), loaded.search(queries, 5), strict=True):
            assert np.array_equal(before, after)

    def test_an_empty_index_is_saved_like_any_other(self, tmp_path: Path) -> None:
        self.build(AXES[:0]).save(tmp_path / "dense.faiss")
        assert read_sealed(tmp_path / "dense.faiss", AXES.__getitem__).count == 0

    def test_keys_that_are_a_view_of_a_larger_array_are_read_right(self) -> None:
        wide = np.zeros((400, 64), np.float32)
        wide[:, ::2] = keys = clustered(400, seed=18)
        _, positions = self.build(wide[:, ::2]).search(keys[[2]], 1)
        assert positions.tolist() == [[2]]


class TestBytewiseIndex(RefinedIndexContract):
    def build(self, keys: Floats) -> Int8Index:
        return Int8Index(keys, keys.__getitem__)

    def test_keys_beyond_the_scale_are_found(self) -> None:
        keys = np.concatenate([np.eye(32, dtype=np.float32), clustered(2_000, seed=19)])
        _, found = self.build(keys).search(keys[:32], 1)
        assert found[:, 0].tolist() == list(range(32))

    @pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
    def test_how_long_a_query_is_changes_no_order(self, length: float) -> None:
        keys, queries = clustered(2_000, seed=20), clustered(5, seed=21)
        _, wanted = self.build(keys).search(queries, 20)
        _, found = self.build(keys).search(np.float32(length) * queries, 20)
        assert np.array_equal(found, wanted)

    def test_a_query_of_nothing_finds_keys_all_the_same(self) -> None:
        keys = clustered(2_000, seed=22)
        scores, found = self.build(keys).search(np.zeros((1, 32), np.float32), 5)
        assert scores.tolist() == [[0.0] * 5]
        assert (found >= 0).all()


class TestCompressedIndex(RefinedIndexContract):
    def build(self, keys: Floats) -> PQ4Index:
        return PQ4Index(keys, keys.__getitem__)

    def test_keys_unlike_those_that_it_was_trained_on_are_found(self) -> None:
        keys, queries = clustered(4_000, seed=16), clustered(50, seed=17)
        keys = np.ascontiguousarray(keys[np.argsort(keys[:, 0])])  # the first quarter trains: one side of all
        _, truth = ExactIndex(keys).search(queries, 20)
        _, found = self.build(keys).search(queries, 20)
        assert overlap(found, truth) >= 0.99

    def test_of_very_many_keys_twice_as_many_are_refined(self, monkeypatch: pytest.MonkeyPatch) -> None:
        few = self.build(clustered(100, seed=24)).refined
        monkeypatch.setattr("index.candidates.pq4.MANY", 100)
        assert [self.build(clustered(count, seed=24)).refined for count in (99, 100)] == [few, 2 * few]


# --- The choice ---


def test_few_keys_are_scanned_in_8_bits_and_many_in_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.candidates.build.COMPRESSED_FROM", 100)
    keys = clustered(150, seed=14)
    kinds = [type(seal(keys[:count], keys.__getitem__)) for count in (0, 99, 100, 150)]
    assert kinds == [Int8Index, Int8Index, PQ4Index, PQ4Index]


def test_a_grown_index_answers_as_one_that_is_built_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.candidates.build.COMPRESSED_FROM", 100)
    keys, index = clustered(300, seed=15), None
    for count in (0, 10, 60, 99, 120, 200, 255, 256, 300):
        index = seal(keys[:count], keys.__getitem__, index)
        fresh = seal(keys[:count], keys.__getitem__)
        assert type(index) is type(fresh)
        for one, other in zip(index.search(keys[-3:], 9), fresh.search(keys[-3:], 9), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("count", [50, 150])
def test_a_saved_choice_is_read_as_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("index.candidates.build.COMPRESSED_FROM", 100)
    keys = clustered(count, seed=16)
    index = seal(keys, keys.__getitem__)
    index.save(tmp_path / "dense.faiss")
    again = read_sealed(tmp_path / "dense.faiss", keys.__getitem__)
    assert (type(again), again.count) == (type(index), count)
    for one, other in zip(index.search(keys[:5], 3), again.search(keys[:5], 3), strict=True):
        assert np.array_equal(one, other)
