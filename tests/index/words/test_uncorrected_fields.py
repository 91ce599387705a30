"""Corrections do not match in the fields that an owner excludes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode, Query, read_query
from index.ranking.search import search
from index.records import LEXICAL
from index.words.query_words import Alternative, Field, QueryWords, Source
from index.words.reading_options import ReadingOptions, Synonyms
from index.words.term_matching import find_words
from index.words.uncorrected_fields import documents_outside, without_corrections
from tests.index.fixtures import ENCODER, generation_of, vector_of, written

NOTHING: frozenset[Field] = frozenset()
TITLES, TEXTS = frozenset({Field.TITLE}), frozenset({Field.TEXT})
TYPOS = ReadingOptions(typos=True)
IN_TITLE, IN_TEXT, IN_BOTH, NOWHERE = range(4)
HEAD = AttentionHead(HeadConfig(ENCODER.dim))
DOCUMENTS = [
    written(IN_TITLE, "a bag for the road", title="kettle"),
    written(IN_TEXT, "boils water as a kettle does", title="pot"),
    written(IN_BOTH, "this kettle whistles", title="kettle"),
    written(NOWHERE, "a cup of tea", title="zalto"),
]


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return generation_of(tmp_path, DOCUMENTS)


def evidence(generation: Generation, text: str, options: ReadingOptions) -> dict[int, dict[str, float]]:
    """Return the word evidence above 0 of the candidates of a search by words, by row."""
    query = Query(text, vector_of(text), Mode.WORDS, reading=options)
    found = search(generation, HEAD, query).candidates
    rows = generation.rows[found.doc_indices].tolist()
    return {
        row: {name: value for name, value in zip(LEXICAL, values, strict=True) if value > 0}
        for row, values in zip(rows, found.words.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        (NOTHING, {IN_TITLE, IN_TEXT, IN_BOTH}),
        (TITLES, {IN_TEXT, IN_BOTH}),
        (TEXTS, {IN_TITLE, IN_BOTH}),
        (TITLES | TEXTS, set()),
    ],
)
def test_a_document_that_a_correction_matches_only_in_an_excluded_field_is_no_candidate(
    generation: Generation, excluded: frozenset[Field], expected: set[int]
) -> None:
    found = evidence(generation, "ketle", replace(TYPOS, uncorrected_fields=excluded))
    assert set(found) == expected
    assert all(parts["corrected"] > 0 and parts["coverage"] > 0 for parts in found.values())


def test_a_candidate_by_another_word_has_no_evidence_of_a_correction_in_an_excluded_field(
    generation: Generation,
) -> None:
    found = evidence(generation, "ketle road", replace(TYPOS, uncorrected_fields=TITLES))
    assert "corrected" not in found[IN_TITLE]
    assert found[IN_TITLE]["words"] > 0
    both = evidence(generation, "ketle road", TYPOS)[IN_TITLE]
    assert both["corrected"] > 0
    assert both["coverage"] > found[IN_TITLE]["coverage"]


def test_a_filter_holds_for_corrections_too(generation: Generation) -> None:
    options = replace(TYPOS, uncorrected_fields=TITLES)
    allowed = generation.rows == IN_BOTH
    query = Query("ketle", vector_of("ketle"), Mode.WORDS, allowed=allowed, reading=options)
    found = search(generation, HEAD, query).candidates
    assert generation.rows[found.doc_indices].tolist() == [IN_BOTH]


@pytest.mark.parametrize("text", ["kettle", "cup of tea", "kettle kettle"])
def test_exact_words_match_in_every_field(generation: Generation, text: str) -> None:
    options = replace(TYPOS, uncorrected_fields=TITLES)
    assert evidence(generation, text, options) == evidence(generation, text, TYPOS)


def test_a_synonym_that_is_also_a_correction_matches_in_every_field(generation: Generation) -> None:
    options = replace(TYPOS, uncorrected_fields=TITLES, synonyms=Synonyms({"ketle": ["kettle"]}))
    found = evidence(generation, "ketle", options)
    assert set(found) == {IN_TITLE, IN_TEXT, IN_BOTH}
    assert all("words" in parts and "corrected" not in parts for parts in found.values())


def test_facets_count_what_a_correction_matches(generation: Generation) -> None:
    for excluded, expected in ((NOTHING, [True, True, True, False]), (TITLES, [False, True, True, False])):
        query = Query("ketle", vector_of("ketle"), reading=replace(TYPOS, uncorrected_fields=excluded))
        assert generation.documents_with(read_query(generation, query).words).tolist() == expected


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Kettle 2, red", "boils water"),
        ("", "water"),
        ("辞書の本", "辞書 kettle"),
        ("n°1 café-au-lait", ""),
        ("...", "b"),
    ],
)
def test_the_words_of_a_title_are_counted_as_the_index_cuts_them(tmp_path: Path, title: str, text: str) -> None:
    columns = generation_of(tmp_path, [written(1, text, title)]).columns
    (count,) = columns.title_words.tolist()
    of_title = generation_of(tmp_path / "title", [written(1, "", title)]).columns.tokens
    assert columns.tokens[:count].tolist() == of_title.tolist()


# --- A slow loop ---


def by_hand(
    documents: Sequence[tuple[list[int], list[int]]], wanted: set[int], excluded: frozenset[Field]
) -> list[bool]:
    """Return which documents (title, text) have a wanted word outside the excluded fields."""
    seen = [
        (set() if Field.TITLE in excluded else set(title)) | (set() if Field.TEXT in excluded else set(text))
        for title, text in documents
    ]
    return [bool(words & wanted) for words in seen]


@pytest.mark.parametrize("excluded", [NOTHING, TITLES, TEXTS, TITLES | TEXTS])
def test_documents_agree_with_a_slow_loop(excluded: frozenset[Field]) -> None:
    random = np.random.default_rng(0)
    documents = [
        (random.integers(0, 30, random.integers(0, 4)).tolist(), random.integers(0, 30, random.integers(0, 6)).tolist())
        for _ in range(40)
    ]
    words = np.asarray([word for title, text in documents for word in (*title, *text)], np.uint32)
    first = np.cumsum([0, *(len(title) + len(text) for title, text in documents)])
    titles = np.asarray([len(title) for title, _ in documents])
    wanted = np.asarray([3, 7, 99], np.uint32)
    containing = by_hand(documents, set(wanted.tolist()), excluded)
    assert documents_outside(excluded, wanted, words, first, titles).tolist() == containing

    asked = QueryWords.of(
        np.asarray([5], np.uint32), np.ones(1, np.float32), [Alternative(0, 7, 1.0, 0.5, Source.CORRECTED)]
    )._replace(uncorrected_fields=excluded)
    found = without_corrections(asked, find_words(asked, words, first, np.arange(40)), titles)
    expected = [
        (document, within)
        for document, (title, text) in enumerate(documents)
        for within, word in enumerate((*title, *text))
        if word == 5 or (word == 7 and (Field.TITLE if within < len(title) else Field.TEXT) not in excluded)
    ]
    assert list(zip(found.document.tolist(), found.within.tolist(), strict=True)) == expected
