"""Documents with an exact rating come first for exactly the words of their query, and change no other ranking."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.memory.query_key import as_query_key
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig
from index.ranking.exact_matches import EXACT_MARGIN
from index.ranking.explanation import explain_parts
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, search
from index.records import MemoryKey
from tests.index.fixtures import ENCODER, generation_of, remembered, vector_of, written

TEXT = "how do I delete a folder"
KEY = as_query_key(TEXT)
OTHER = "how do I delete folders"
COUNT = 60
DOCUMENTS = [written(row, f"delete a folder number {row} " + "more words " * row) for row in range(1, COUNT + 1)]
UNTRAINED = HeadConfig(dim=ENCODER.dim)
WITHOUT_MEMORY = AttentionHead(replace(UNTRAINED, beta=(*UNTRAINED.beta[:-1], 0.0), memory_gain=1e-6))
"""A head that learned to give memory no weight."""


def query(text: str = TEXT, mode: Mode = Mode.HYBRID, excluded_query: str | None = None) -> Query:
    return Query(text, vector_of(text), mode=mode, count=COUNT, excluded_query=excluded_query)


def rated(row: int, exact: float, text: str = TEXT) -> MemoryKey:
    return replace(remembered(row, row, text, 0.8, as_query_key(text)), exact=exact)


def of(directory: Path, *memory: MemoryKey) -> Generation:
    return generation_of(directory, DOCUMENTS, memory)


def without_exact(memory: tuple[MemoryKey, ...]) -> list[MemoryKey]:
    return [replace(key, exact=0.0) for key in memory]


def order(generation: Generation, ranking: Ranking) -> list[int]:
    return generation.rows[ranking.doc_indices].tolist()


def same_bits(one: Ranking, other: Ranking) -> bool:
    arrays = ("doc_indices", "logits", "weights", "parts")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in arrays) and (
        one.null_weight == other.null_weight
    )


def ordinary(directory: Path, head: AttentionHead) -> list[int]:
    generation = of(directory / "ordinary")
    return order(generation, search(generation, head, query()))


@pytest.mark.parametrize("rank", [0, 5, 53])
def test_a_rated_document_comes_first_from_any_rank_of_any_head(tmp_path: Path, rank: int) -> None:
    before = ordinary(tmp_path, WITHOUT_MEMORY)
    generation = of(tmp_path, rated(before[rank], 4.0))
    ranking = search(generation, WITHOUT_MEMORY, query())
    after = order(generation, ranking)
    assert after == [before[rank], *(row for row in before if row != before[rank])]
    assert ranking.logits[0] - ranking.logits[1] >= EXACT_MARGIN * (1 - 1e-6)


def test_three_documents_come_first_by_rating_then_logit_and_a_fourth_does_not(tmp_path: Path) -> None:
    before = ordinary(tmp_path, WITHOUT_MEMORY)
    three, better, four, fourth = (before[rank] for rank in (50, 20, 54, 57))
    generation = of(tmp_path, rated(three, 3.0), rated(better, 3.0), rated(four, 4.0), rated(fourth, 3.0))
    ranking = search(generation, WITHOUT_MEMORY, query())
    first = [four, better, three]
    assert order(generation, ranking) == [*first, *(row for row in before if row not in first)]


def test_the_parts_still_sum_to_the_logit_and_the_weights_to_one(tmp_path: Path) -> None:
    head = AttentionHead(UNTRAINED)
    last = ordinary(tmp_path, head)[-1]
    generation, plain = of(tmp_path, rated(last, 3.5)), of(tmp_path / "plain", *without_exact((rated(last, 3.5),)))
    ranking, before = search(generation, head, query()), search(plain, head, query())
    assert ranking.parts.sum(axis=1) == pytest.approx(ranking.logits, abs=1e-4)
    assert ranking.weights.sum() + ranking.null_weight == pytest.approx(1.0, abs=1e-5)
    parts, unraised = explain_parts(ranking, 0), explain_parts(before, order(plain, before).index(last))
    assert parts.pop("memory") > unraised.pop("memory")
    assert parts == unraised
    assert (EVIDENCE[-1], np.isfinite(ranking.parts).all()) == ("memory", True)


@pytest.mark.parametrize(
    "asked",
    [query(OTHER), query("delete"), query(mode=Mode.DENSE), query(mode=Mode.WORDS), query(excluded_query=KEY)],
    ids=["paraphrase", "another", "dense", "words", "held out"],
)
def test_any_other_search_keeps_every_bit(tmp_path: Path, asked: Query) -> None:
    head = AttentionHead(UNTRAINED)
    memory = tuple(rated(row, 4.0) for row in (3, 30))
    with_exact, plain = of(tmp_path / "exact", *memory), of(tmp_path / "plain", *without_exact(memory))
    assert same_bits(search(with_exact, head, asked), search(plain, head, asked))


def test_case_and_white_space_do_not_matter(tmp_path: Path) -> None:
    generation = of(tmp_path, rated(40, 4.0))
    head = AttentionHead(UNTRAINED)
    for text in (TEXT.upper(), f"  {TEXT.replace(' ', '   ')} "):
        assert order(generation, search(generation, head, query(text)))[0] == 40


def test_the_typed_text_counts_where_the_words_are_a_part_of_it(tmp_path: Path) -> None:
    generation, head = of(tmp_path, rated(40, 4.0, "folder -copy")), AttentionHead(UNTRAINED)
    asked = query("folder")
    assert order(generation, search(generation, head, asked))[0] != 40
    assert order(generation, search(generation, head, replace(asked, typed="folder -copy")))[0] == 40


def test_a_filter_and_a_missing_document_come_before_the_rating(tmp_path: Path) -> None:
    generation, head = of(tmp_path, rated(40, 4.0), rated(999, 4.0), rated(7, 3.0)), AttentionHead(UNTRAINED)
    allowed = generation.rows != 40
    assert order(generation, search(generation, head, replace(query(), allowed=allowed)))[0] == 7


def test_removing_the_rating_restores_the_ranking_bit_for_bit(tmp_path: Path) -> None:
    head, plain = AttentionHead(UNTRAINED), of(tmp_path / "plain")
    memory = of(tmp_path, rated(40, 4.0)).memory
    removed = replace(plain, memory=memory.changed({KEY: []}))
    assert same_bits(search(removed, head, query()), search(plain, head, query()))


def test_the_only_candidate_keeps_a_finite_logit(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, DOCUMENTS[:1], [rated(1, 4.0)])
    ranking = search(generation, AttentionHead(UNTRAINED), query())
    assert np.isfinite(ranking.logits).all()
