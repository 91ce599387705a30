"""The attention over sentences: each document's weight is shared among its sentences."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode, Query, read_query
from index.ranking.search import Ranking, search
from index.ranking.sentences import Sentences, sentence_weights
from tests.index.fixtures import ENCODER, store_of, vector_of, written

TEXTS = ["The bear eats berries", "Its den is under the roots of a tree", "Wolves hunt in packs", "A fox digs an earth"]
OF = [0, 0, 1, 1]
TEXT = "den under the roots"
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim))


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    documents = [written(1, ". ".join(TEXTS[:2]), "bears"), written(2, ". ".join(TEXTS[2:]), "others")]
    return store_of(tmp_path, documents).current


def asked(generation: Generation, mode: Mode = Mode.HYBRID) -> tuple[Query, Ranking]:
    query = Query(TEXT, vector_of(TEXT), mode)
    return query, search(generation, HEAD, query)


def weights_of(generation: Generation, mode: Mode = Mode.HYBRID, head: AttentionHead = HEAD) -> np.ndarray:
    query, ranking = asked(generation, mode)
    texts = TEXTS[: 2 * len(ranking.doc_indices)]  # words alone do not find the second document
    vectors = None if mode is Mode.WORDS else np.stack([vector_of(text) for text in texts])
    sentences = Sentences(np.asarray(OF[: len(texts)]), vectors, [generation.words.number(text) for text in texts])
    return sentence_weights(head, read_query(generation, query).words, ranking, sentences)


@pytest.mark.parametrize("mode", list(Mode))
def test_the_weights_of_sentences_sum_to_the_weight_of_their_document(generation: Generation, mode: Mode) -> None:
    _, ranking = asked(generation, mode)
    weights = weights_of(generation, mode)
    for rank, weight in enumerate(ranking.weights):
        assert weights[2 * rank : 2 * rank + 2].sum() == pytest.approx(weight)


@pytest.mark.parametrize("mode", list(Mode))
def test_the_sentence_with_the_words_of_the_query_has_the_most_attention(generation: Generation, mode: Mode) -> None:
    assert np.argmax(weights_of(generation, mode)) == 1


def test_the_parameters_of_the_head_decide(generation: Generation) -> None:
    """Without word evidence and with sharper dense evidence, the nearest sentence of a document wins."""
    beta = np.asarray(HEAD.beta) * np.asarray([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    weights = weights_of(generation, head=HEAD.changed(beta=20 * beta))
    cosines = [float(vector_of(text) @ vector_of(TEXT)) for text in TEXTS]
    assert np.argmax(weights[:2]) == np.argmax(cosines[:2])
    assert np.argmax(weights[2:]) == np.argmax(cosines[2:])


def test_sentences_without_words_and_an_unfinished_query_have_weights(generation: Generation) -> None:
    query, ranking = asked(generation)
    ranking = replace(ranking, candidates=replace(ranking.candidates, trust=0.5))
    sentences = Sentences(np.asarray([0, 0]), np.stack([vector_of("a"), vector_of("b")]), [np.empty(0, np.uint32)] * 2)
    weights = sentence_weights(HEAD, read_query(generation, query).words, ranking, sentences)
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(ranking.weights[0])
