"""Queries made of a collection's texts, and the null slot that they calibrate before any training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.encoding.hashing_encoder import HashingEncoder
from index.generation.generation import Generation, IndexedDocument
from index.learning.made_queries import MADE_QUERIES, PER_DOCUMENT, MadeQuery, SourceText, make_queries
from index.learning.null_slot import (
    LEAST_MADE,
    calibrate_from_documents,
    calibrate_from_texts,
    made_evidence,
)
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import load_head, save_head
from index.ranking.retrieval import Query
from index.ranking.search import search
from index.records import Floats, Key, KeyKind
from tests.index.fixtures import generation_of

DIM = 64
ENCODER = HashingEncoder(DIM)
TOPICS = ["kettle", "lamp", "chair", "window", "carpet", "mirror", "shelf", "candle", "pillow", "basket"]
DETAILS = ["copper", "walnut", "linen", "ceramic", "velvet", "bamboo", "marble", "leather"]
SOURCES = [
    SourceText(
        row, f"{detail} {topic} number{row}", f"The {topic} has a {detail} rim{row}. Clean it with soft water{row}."
    )
    for row, (topic, detail) in enumerate((topic, detail) for topic in TOPICS for detail in DETAILS)
]
HEAD = AttentionHead(HeadConfig(dim=DIM))


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return generation_of(tmp_path_factory.mktemp("texts"), [indexed(one) for one in SOURCES], (), DIM)


def indexed(one: SourceText) -> IndexedDocument:
    title, text = (ENCODER.encode([each])[0] for each in (one.title, f"{one.title}\n{one.text}"))
    keys = [Key(KeyKind.TITLE, title), Key(KeyKind.PASSAGE, text)]
    return IndexedDocument(one.row, f"{one.title}\n{one.text}", keys, title=one.title)


def encode(texts: Sequence[str]) -> Floats:
    return ENCODER.encode_queries(list(texts))


def test_a_made_query_has_at_most_half_of_the_words_of_a_title_or_sentence_of_its_document() -> None:
    made = make_queries(SOURCES)
    assert {one.kind for one in made} == {KeyKind.TITLE, KeyKind.SENTENCE}
    for one in made:
        source = SOURCES[one.row]
        of = source.title if one.kind is KeyKind.TITLE else source.text
        assert set(one.text.split()) <= set(of.replace(".", ". ").split())
        assert 1 <= len(one.text.split()) <= 3


def test_the_number_of_made_queries_is_bounded_and_the_same_texts_make_the_same_queries() -> None:
    assert len(make_queries(SOURCES)) == PER_DOCUMENT * len(SOURCES)
    many = [replace(one, row=number) for number, one in enumerate(SOURCES * 20)]
    assert len(make_queries(many)) == MADE_QUERIES
    assert make_queries(SOURCES) == make_queries(SOURCES) != make_queries(SOURCES, seed=1)


def test_documents_without_words_make_no_query_and_scripts_without_spaces_make_some() -> None:
    assert make_queries([SourceText(1, "", ""), SourceText(2, " ", "\n")]) == []
    made = make_queries([SourceText(3, "", "東京の天気は今日も晴れです。明日は雨が降るでしょう。")])
    assert len(made) == PER_DOCUMENT
    assert all(max(map(len, one.text.split())) <= 2 for one in made)


def test_the_key_that_a_query_is_made_of_does_not_count(collection: Generation) -> None:
    one = SOURCES[3]
    made = [MadeQuery(one.title, one.row, KeyKind.TITLE)]
    vectors = encode([one.title])
    evidence = made_evidence(collection, HEAD, made, vectors)
    whole = search(collection, HEAD, Query(one.title, vectors[0]))
    assert evidence.answered[0, 0] < float(np.logaddexp.reduce(whole.logits))
    assert evidence.unanswered[0, 0] < evidence.answered[0, 0]


def test_before_any_training_queries_without_an_answer_are_told_from_those_with_one(collection: Generation) -> None:
    head, count = calibrate_from_documents(collection, HEAD, SOURCES, encode)
    assert count > LEAST_MADE
    assert (HEAD.is_null_calibrated, head.is_null_calibrated) == (False, True)
    answered = [f"{one.title.split()[0]} {one.title.split()[1]} rim{one.row}" for one in SOURCES]
    unanswered = ["tax law of rural france", "quantum entropy lecture", "goalkeeper transfer", "sonnet metre"]
    weights = [
        np.asarray(
            [
                search(collection, head, Query(text, vector)).null_weight
                for text, vector in zip(texts, encode(texts), strict=True)
            ]
        )
        for texts in (answered, unanswered)
    ]
    assert (weights[0] >= 0.5).mean() <= 0.05
    assert (weights[1] >= 0.5).all()


def test_the_calibration_changes_no_ranking_and_is_the_same_to_the_bit(collection: Generation, tmp_path: Path) -> None:
    first, second = (calibrate_from_documents(collection, HEAD, SOURCES, encode)[0] for _ in range(2))
    assert first.null.tolist() == second.null.tolist()
    query = Query("copper kettle", encode(["copper kettle"])[0])
    before, after = (search(collection, head, query) for head in (HEAD, first))
    assert before.doc_indices.tolist() == after.doc_indices.tolist()
    assert before.logits.tolist() == after.logits.tolist()
    assert float(after.weights.sum()) + after.null_weight == pytest.approx(1, abs=1e-5)
    save_head(tmp_path / "1", first, {})
    loaded = load_head(tmp_path / "1")
    assert loaded.is_null_calibrated
    assert AttentionHead(loaded.config).is_null_calibrated


def test_a_collection_with_too_few_texts_is_not_calibrated(collection: Generation) -> None:
    head, count = calibrate_from_documents(collection, HEAD, SOURCES[:5], encode)
    assert (head, count) == (HEAD, 5 * PER_DOCUMENT)
    made = make_queries(SOURCES[:10])
    assert calibrate_from_texts(collection, HEAD, made, encode([one.text for one in made])) is None


def test_a_document_that_was_removed_meanwhile_is_left_out(collection: Generation) -> None:
    made = [MadeQuery("copper", 10_000, KeyKind.TITLE)]
    assert not len(made_evidence(collection, HEAD, made, encode(["copper"])).unanswered)
