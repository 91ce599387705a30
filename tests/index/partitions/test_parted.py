"""A collection in parts gives the ranking of the collection in one generation, to the bit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.columns import id_order
from index.generation.document_fields import category_key, number_key
from index.generation.generation import Generation
from index.partitions import merged_words
from index.partitions.merged_words import Asking, MergedPostings
from index.partitions.parted import PartedDocuments
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.field_priors import KNOTS, FieldPriors
from index.ranking.priors import Priors, document_hashes
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, rank, search
from index.ranking.trees import Trees
from index.records import MemoryKey
from index.words.reading_options import ReadingOptions, Synonyms, folded
from index.words.word_search import read
from tests.index.fixtures import ENCODER, generation_of, remembered, vector_of, written
from tests.index.partitions.local_parts import LocalParts, split

NOUNS = "oak elm ash fir yew beech birch maple larch alder".split()
PLACES = "garden meadow forest valley river hill shore road yard park".split()
TEXTS = {
    row: f"The {NOUNS[row % 10]} in the {PLACES[row // 7 % 10]} is {'very ' * (row % 5)}old" for row in range(1, 61)
}
DOCUMENTS = [
    replace(
        written(row, text, NOUNS[row * 3 % 10]),
        id=f"tree {row * 37 % 61}",
        metadata={"age": row * row % 50, "soil": NOUNS[row % 4]} if row % 5 else {},
    )
    for row, text in TEXTS.items()
]
TITLE = "old garden and park"
RIVAL = f"{TITLE}, {TITLE}: the {TITLE}"
DOCUMENTS += [written(row, f"{RIVAL} {row}", RIVAL) for row in range(61, 64)]
DOCUMENTS += [written(64, "It opens in spring and closes in autumn. " * 20, TITLE)]
REMOVED = (7, 8, 30)
MEMORY = [remembered(n, row, text) for n, (row, text) in enumerate([(5, "old oak"), (9, "old oak"), (12, "elm tree")])]
RATED = [
    MemoryKey(20, vector_of("a fir"), 1.0, "a fir", 1, 4.0),
    MemoryKey(33, vector_of("a fir"), 1.0, "a fir", 1, 3.0),
]
CONFIG = HeadConfig(dim=ENCODER.dim, inverse_temperature=10.0)
TREE = Trees(
    np.asarray([[0, 5, 9], [3, 20, 24]], np.float32),
    np.full((2, 3), 0.3, np.float32),
    np.arange(16, dtype=np.float32).reshape(2, 8) / 9,
)
HASHES = np.sort(document_hashes(id_order(f"tree {number}" for number in range(0, 61, 3))))
PRIORS = Priors(HASHES, np.linspace(-1, 1, len(HASHES), dtype=np.float32))
OF_FIELDS = FieldPriors(
    np.sort(np.asarray([category_key("soil", noun) for noun in NOUNS[:3]], np.uint64)),
    np.asarray([0.3, -0.4, 0.7], np.float32),
    np.asarray([number_key("age")], np.uint64),
    np.arange(KNOTS, dtype=np.float64)[None] * 7,
    np.linspace(0.9, -0.9, KNOTS, dtype=np.float32)[None],
    np.asarray(0.2, np.float32),
)
HEADS = {
    "untrained": AttentionHead(CONFIG),
    "balanced": AttentionHead(replace(CONFIG, balance=(0.1, 0.5, -0.4, 0.2))),
    "with a second hop": AttentionHead(CONFIG).changed(hop=0.5),
    "with a context": AttentionHead(CONFIG).changed(context=0.5),
    "with trees": AttentionHead(CONFIG).grown(TREE),
    "with priors": AttentionHead(CONFIG).preferring(PRIORS),
    "with priors of fields": AttentionHead(CONFIG).preferring(replace(PRIORS, fields=OF_FIELDS)),
    "with a second hop and priors of fields": (
        AttentionHead(CONFIG).changed(hop=0.5).preferring(replace(PRIORS, fields=OF_FIELDS))
    ),
    "with two heads": AttentionHead(replace(CONFIG, heads=2, form="cosine")),
}
QUERIES = (
    "old oak",
    "elm tree",
    "a fir",
    TITLE.upper(),
    "the maple by the rivr",
    "unknown words alone",
    "very very old park",
)
OPTIONS = ReadingOptions(typos=True)
TYPED = ReadingOptions(typos=True, prefix=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    living = [one for one in DOCUMENTS if one.row not in REMOVED]
    return generation_of(tmp_path_factory.mktemp("whole"), living, MEMORY + RATED)


@pytest.fixture(scope="module", params=[1, 2, 4, 7])
def parts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Generation]:
    return split(tmp_path_factory.mktemp("parts"), DOCUMENTS, MEMORY + RATED, request.param, REMOVED)


def parted(parts: list[Generation], head: AttentionHead, query: Query) -> Ranking:
    """Return the ranking of a collection in parts; the context of the query is rows."""
    local = LocalParts(parts, head)
    reading = read(query.text, query.reading or OPTIONS, local.vocabulary)
    query = replace(query, read=reading, statistics=local.postings.statistics(reading, local.vocabulary.listed_count))
    return rank(PartedDocuments(local), head, query)


def rows_of(whole: Generation, ranking: Ranking) -> list[int]:
    return whole.rows[ranking.doc_indices].tolist()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("mode", Mode)
def test_the_ranking_has_the_bits_of_a_single_generation(
    whole: Generation, parts: list[Generation], name: str, mode: Mode
) -> None:
    for text in QUERIES:
        query = Query(text, vector_of(text), mode, 100, reading=OPTIONS)
        context = whole.doc_indices(np.asarray([3, 4])) if name == "with a context" else None
        expected = search(whole, HEADS[name], replace(query, context=context))
        found = parted(parts, HEADS[name], replace(query, context=None if context is None else np.asarray([3, 4])))
        assert found.doc_indices.tolist() == rows_of(whole, expected), text
        for field in ("logits", "weights", "parts", "asked"):
            assert np.array_equal(getattr(found, field), getattr(expected, field)), (text, field)
        assert found.null_weight == expected.null_weight


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("memory_vector", [None, vector_of("old oak")])
def test_a_query_that_is_not_encoded_has_the_bits_of_a_single_generation(
    whole: Generation, parts: list[Generation], name: str, memory_vector: np.ndarray | None
) -> None:
    unread = np.zeros(ENCODER.dim, np.float32)
    for text in ("m", "o", "a fir"):
        query = Query(text, unread, count=100, reading=TYPED, encoded=False, memory_vector=memory_vector)
        expected, found = search(whole, HEADS[name], query), parted(parts, HEADS[name], query)
        assert found.doc_indices.tolist() == rows_of(whole, expected)
        assert np.array_equal(found.logits, expected.logits)
        assert np.array_equal(found.parts, expected.parts)
        assert len(found.doc_indices)
        assert len(found.candidates.memory_cosine) == (0 if memory_vector is None else 2)


def test_a_query_with_unknown_tokens_has_the_bits_of_a_single_generation(
    whole: Generation, parts: list[Generation]
) -> None:
    query = Query("old oak", vector_of("old oak"), count=100, reading=OPTIONS, known=0.5)
    expected, found = search(whole, HEADS["untrained"], query), parted(parts, HEADS["untrained"], query)
    assert np.array_equal(found.logits, expected.logits)
    known = search(whole, HEADS["untrained"], replace(query, known=1.0))
    assert not np.array_equal(known.logits, expected.logits)


def test_a_query_is_read_by_the_words_of_all_parts(whole: Generation, parts: list[Generation]) -> None:
    vocabulary = LocalParts(parts, HEADS["untrained"]).vocabulary
    for text in (*QUERIES, "ok", "gardn", "hil of the aldre", "the bee", "m", "an old v", "oldoak", "mea dow"):
        for options in (OPTIONS, TYPED, ReadingOptions()):
            found, expected = read(text, options, vocabulary), whole.words.read(text, options)
            assert found.terms == expected.terms
            assert (found.text, found.encoded, found.unfinished) == (
                expected.text,
                expected.encoded,
                expected.unfinished,
            )
            assert (found.corrections, found.trust) == (expected.corrections, expected.trust)
            assert all(np.array_equal(a, b) for a, b in zip(found.words[:7], expected.words[:7], strict=True))


def test_a_synonym_of_several_words_has_the_bits_of_a_single_generation(
    whole: Generation, parts: list[Generation]
) -> None:
    declared = {"tree": ["forest is very", "oak in the garden"], "wood": ["the fir"], "木": ["森林浴"]}
    options = replace(OPTIONS, synonyms=Synonyms(declared))
    for text in ("tree", "old tree", "wood", "木"):
        for mode in Mode:
            query = Query(text, vector_of(text), mode, 5, reading=options, signals=True)
            expected = search(whole, HEADS["untrained"], query)
            found = parted(parts, HEADS["untrained"], query)
            assert found.doc_indices.tolist() == rows_of(whole, expected), (text, mode)
            assert np.array_equal(found.parts, expected.parts)


@pytest.mark.parametrize(
    ("q", "synonym", "more", "loose"),
    [
        ("手机", "移动电话", 10, ("动电影院电话", "移动会动电影", "移动公司电话")),
        ("tv", "flat screen", 2, ("screen flat",) * 3),
    ],
)
def test_documents_with_parts_of_a_synonym_do_not_displace_those_with_all_of_it(
    tmp_path: Path, q: str, synonym: str, more: int, loose: tuple[str, ...]
) -> None:
    rest = " ".join(f"w{number}" for number in range(more))
    having = [written(row, f"{word} {rest}") for row, word in enumerate([synonym, q, synonym, q], 200)]
    documents = [*(written(row, loose[row % 3]) for row in range(1, 121)), *having]
    whole, halves = generation_of(tmp_path / "whole", documents), split(tmp_path / "halves", documents, [], 2, ())
    options = replace(OPTIONS, synonyms=Synonyms({q: [folded(synonym)]}))
    query = Query(q, vector_of(q), Mode.WORDS, 20, reading=options)
    found = whole.words.search(q, 40, options=options)[0]
    assert not {200, 202} & set(found.tolist()), "the word library prefers the documents with the parts"
    assert set(rows_of(whole, search(whole, HEADS["untrained"], query))[:4]) == {200, 201, 202, 203}
    assert set(parted(halves, HEADS["untrained"], query).doc_indices[:4].tolist()) == {200, 201, 202, 203}
    few = replace(query, allowed=whole.rows != 200)
    assert 200 not in rows_of(whole, search(whole, HEADS["untrained"], few))


def test_few_candidates_are_the_best_of_all_parts(whole: Generation, parts: list[Generation]) -> None:
    for text in QUERIES:
        query = Query(text, vector_of(text), Mode.DENSE, 5, reading=OPTIONS)
        expected = search(whole, HEADS["untrained"], query)
        found = parted(parts, HEADS["untrained"], query)
        assert np.array_equal(found.logits, expected.logits)
        query = replace(query, mode=Mode.HYBRID)
        assert len(parted(parts, HEADS["untrained"], query).doc_indices) <= 2 * 5 + len(MEMORY + RATED)


def test_an_unfinished_word_has_the_same_candidates_in_parts(tmp_path: Path) -> None:
    rare = [written(row, f"supersonic flock{row % 60} in a {PLACES[row % 7]}") for row in range(1, 201)]
    frequent = [written(row, f"supersonic flow {'flow ' * (row % 3)}in {PLACES[row % 5]}") for row in range(201, 241)]
    others = [written(row, f"{NOUNS[row % 10]} {'calm ' * (row % 4)}water") for row in range(241, 500)]
    documents = [*rare, *frequent, *others]
    whole, thirds = generation_of(tmp_path / "whole", documents), split(tmp_path / "thirds", documents, [], 3, ())
    for text in ("supersonic f", "supersonic fl", "supersonic flo", "fl", "supersonc flow"):
        query = Query(text, vector_of(text), count=12, reading=TYPED)
        expected, found = search(whole, HEADS["untrained"], query), parted(thirds, HEADS["untrained"], query)
        assert found.doc_indices.tolist() == rows_of(whole, expected), text
        assert np.array_equal(found.logits, expected.logits)
        assert found.null_weight == expected.null_weight


def test_parts_without_documents_and_no_parts_find_nothing(tmp_path: Path) -> None:
    empty = split(tmp_path, [], [], 2, ())
    query = Query("oak", vector_of("oak"))
    for generations in (empty, []):
        found = parted(generations, HEADS["untrained"], query)
        assert not len(found.doc_indices)
        assert found.null_weight == 1


def test_a_row_that_is_gone_between_two_rounds_is_left_out(parts: list[Generation]) -> None:
    head = HEADS["untrained"]
    local = LocalParts(parts, head)
    reading = read("oak", OPTIONS, local.vocabulary)
    query = Query(
        "oak",
        vector_of("oak"),
        read=reading,
        statistics=local.postings.statistics(reading, local.vocabulary.listed_count),
    )
    found = local.evidence_of(query, query.vector, np.asarray([7, 10, 999]), False)
    assert [row for one in found for row in one.rows.tolist()] == [10]


def test_a_reader_keeps_a_bounded_number_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_words, "MOST_KNOWN_OF_READER", 3)
    asked: list[list[str]] = []

    def frequencies(pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
        asked.append([term for _, term in pairs])
        return [[1] * len(pairs), [2] * len(pairs)]

    postings = MergedPostings([], Asking(frequencies, lambda field, prefix: [])).apart()
    postings.learn([("words", term) for term in "abc"])
    assert postings.frequency("words", "b") == 3
    postings.learn([("words", term) for term in "bd"])
    assert asked == [["a", "b", "c"], ["d"]]
    assert [postings.frequency("words", term) for term in "bda"] == [3, 3, 3], "b stays, because it is asked for"
    assert asked[2:] == [["a"]]
    assert [postings.apart().frequency("words", "b"), asked[3:]] == [3, [["b"]]], "counts are not shared"
