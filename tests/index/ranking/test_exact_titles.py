"""A document whose title is the query comes first, unless feedback on these words says otherwise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.exact_matches import TITLE_MARGIN, title_boost
from index.ranking.explanation import explain_parts
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, search
from index.records import MemoryKey
from tests.index.fixtures import ENCODER, generation_of, remembered, vector_of, written

HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim))
TITLE = "Cat cable 6 grey"
RIVAL = "Cat cable 6 grey, cat cable 6 grey: a cat cable 6 grey of ten metres"
MANY = [written(row, f"{RIVAL} {row}", RIVAL) for row in range(1, 9)]
TITLED = written(9, "It connects a television with its receiver. " * 20, TITLE)
QUERY = "cat cable 6 grey"


def ranking_of(generation: Generation, text: str = QUERY, mode: Mode = Mode.HYBRID, **options: object) -> Ranking:
    return search(generation, HEAD, replace(Query(text, vector_of(text), mode=mode), **options))  # type: ignore[arg-type]


def rows(generation: Generation, ranking: Ranking) -> list[int]:
    return generation.rows[ranking.doc_indices].tolist()


def of(directory: Path, *memory: MemoryKey) -> Generation:
    return generation_of(directory, [*MANY, TITLED], memory)


def rank_of_titled(generation: Generation, text: str = QUERY, **options: object) -> int:
    return rows(generation, ranking_of(generation, text, **options)).index(9)  # type: ignore[arg-type]


def told(row: int, weight: float) -> MemoryKey:
    """Return feedback on the very words of the query."""
    return remembered(row, row, QUERY, weight, as_query_key(QUERY))


def test_a_document_whose_title_is_the_query_comes_first(tmp_path: Path) -> None:
    generation = of(tmp_path)
    assert rank_of_titled(generation, "grey cat cable 6") > 0, "the order of the words counts"
    ranking = ranking_of(generation)
    assert rows(generation, ranking)[0] == 9
    assert ranking.logits[0] - ranking.logits[1] >= TITLE_MARGIN * (1 - 1e-5)


@pytest.mark.parametrize("text", ["CAT  cable 6, grey", "Cat-cable 6 grey!"])
def test_case_and_punctuation_do_not_count(tmp_path: Path, text: str) -> None:
    assert rank_of_titled(generation_of(tmp_path, [*MANY, TITLED], []), text) == 0


@pytest.mark.parametrize("text", ["cat cable 6", "cat cable 6 grey grey", "a cat cable 6 grey"])
def test_another_number_of_words_is_another_title(tmp_path: Path, text: str) -> None:
    generation = of(tmp_path)
    assert not np.any(ranking_of(generation, text).candidates.titled)


@pytest.mark.parametrize("mode", [Mode.WORDS, Mode.DENSE])
def test_other_modes_are_left_as_they_are(tmp_path: Path, mode: Mode) -> None:
    assert ranking_of(of(tmp_path), mode=mode).candidates.titled is None


def with_twin(directory: Path, *memory: MemoryKey) -> Generation:
    """Return documents of which two have the title: document 10 is the better one by far."""
    twin = written(10, f"{RIVAL} {QUERY}", TITLE)
    return generation_of(directory, [*MANY, TITLED, twin], memory)


def test_documents_with_the_same_title_keep_their_order_and_none_is_raised_farther_than_it_must(tmp_path: Path) -> None:
    generation = with_twin(tmp_path)
    ranking = ranking_of(generation)
    assert rows(generation, ranking)[:2] == [10, 9]
    assert 1 - 1e-4 <= (ranking.logits[1] - ranking.logits[2]) / TITLE_MARGIN <= 2 + 1e-4


def test_a_title_that_is_first_by_far_keeps_its_logit() -> None:
    logits = np.asarray([1.0, 9.0, 3.0, 0.5, 1.3], np.float32)
    titled = np.asarray([False, True, True, True, True])
    boost = title_boost(logits, titled)
    assert boost is not None
    assert boost[:3].tolist() == [0, 0, 0]
    assert logits[3] + boost[3] == pytest.approx(1.25)
    assert 1.3 < logits[4] + boost[4] < 1.5


def test_the_raise_is_of_the_part_phrase_and_the_parts_sum_to_the_logit(tmp_path: Path) -> None:
    generation = of(tmp_path)
    ranking = ranking_of(generation)
    assert ranking.parts.sum(axis=1) == pytest.approx(ranking.logits, abs=1e-4)
    assert ranking.weights.sum() + ranking.null_weight == pytest.approx(1.0, abs=1e-5)
    assert explain_parts(ranking, 0)["phrase"] > explain_parts(ranking, 1)["phrase"]


def test_feedback_on_the_same_words_counts_after_the_title(tmp_path: Path) -> None:
    assert rank_of_titled(of(tmp_path / "disliked", told(9, -3.0))) > 0
    generation = of(tmp_path / "bought", told(4, 3.0))
    assert rows(generation, ranking_of(generation))[:2] == [4, 9]
    generation = with_twin(tmp_path / "disliked twin", told(10, -3.0))
    assert rows(generation, ranking_of(generation))[0] == 9
    assert 10 not in rows(generation, ranking_of(generation))[:2]
    generation = with_twin(tmp_path / "beside twins", told(4, 3.0))
    assert rows(generation, ranking_of(generation))[:3] == [4, 10, 9]
    exact = replace(told(4, 0.1), exact=4.0)
    generation = of(tmp_path / "rated", exact)
    assert rows(generation, ranking_of(generation))[:2] == [4, 9]


def test_a_filter_comes_before_the_title(tmp_path: Path) -> None:
    generation = of(tmp_path)
    assert 9 not in rows(generation, ranking_of(generation, allowed=generation.rows != 9))


def test_a_collection_without_titles_and_a_query_without_words(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, [written(1, "one"), written(2, "two")], [])
    for text in ("one", "", "!!!"):
        ranking = ranking_of(generation, text)
        assert not np.any(ranking.candidates.titled)
        assert np.isfinite(ranking.logits).all()


def test_the_only_candidate_keeps_a_finite_logit(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, [TITLED], [])
    assert np.isfinite(ranking_of(generation).logits).all()
