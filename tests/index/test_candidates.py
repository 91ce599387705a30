"""The exact index and faiss keep the contract; what each adds of its own."""

from pathlib import Path

import numpy as np

from index.candidates.exact import ExactIndex
from index.candidates.faiss import FaissIndex
from index.records import Floats
from tests.contracts.candidate_index import AXES, CandidateIndexContract, random_unit


class TestExactIndex(CandidateIndexContract):
    def build(self, keys: Floats) -> ExactIndex:
        return ExactIndex(keys)

    def test_ties_go_to_the_lower_position(self) -> None:
        keys = AXES[[1, 0, 1, 0, 0]]
        _, positions = ExactIndex(keys).search(AXES[:1], 4)
        assert positions.tolist() == [[1, 3, 4, 0]]
        _, positions = ExactIndex(np.repeat(AXES, 100, axis=0)).search(AXES[[2]], 150)
        assert positions.tolist() == [[*range(200, 300), *range(50)]]


class TestFaissIndex(CandidateIndexContract):
    tolerance = 1e-3  # half precision: 11 bits of a number below 1

    def build(self, keys: Floats) -> FaissIndex:
        return FaissIndex(keys)

    def test_a_saved_index_answers_as_before(self, tmp_path: Path) -> None:
        index, queries = FaissIndex(random_unit(50, 8, seed=1)), random_unit(4, 8, seed=2)
        index.save(tmp_path / "dense.faiss")
        loaded = FaissIndex.load(tmp_path / "dense.faiss")
        assert loaded.count == 50
        for before, after in zip(index.search(queries, 5), loaded.search(queries, 5), strict=True):
            assert np.array_equal(before, after)

    def test_an_empty_index_is_saved_like_any_other(self, tmp_path: Path) -> None:
        FaissIndex(AXES[:0]).save(tmp_path / "dense.faiss")
        assert FaissIndex.load(tmp_path / "dense.faiss").count == 0

    def test_keys_that_are_a_view_of_a_larger_array_are_read_right(self) -> None:
        wide = np.zeros((4, 8), np.float32)
        wide[:, ::2] = AXES
        _, positions = FaissIndex(wide[:, ::2]).search(AXES[[2]], 1)
        assert positions.tolist() == [[2]]

    def test_the_index_does_not_follow_later_changes_of_the_array(self) -> None:
        keys = AXES.copy()
        index = FaissIndex(keys)
        keys[:] = 0
        scores, _ = index.search(AXES[[1]], 1)
        assert scores.tolist() == [[1.0]]
