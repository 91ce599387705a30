"""Attention over the sentences of the best documents: each document's weight is shared among its sentences.

The head scores a sentence as it scores a document: the vector of the sentence is its only key, its words are its text.
Memory, trees and priors are about documents and do not count. Sees vectors and numbers of words, never text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from index.ranking.array_api import softmax
from index.ranking.attention import PASSAGE, AttentionHead, Candidates
from index.ranking.search import Ranking
from index.records import LEXICAL, Floats, Ints
from index.words.query_words import QueryWords, Source, Words
from index.words.term_matching import bm25, find_words, match


@dataclass(frozen=True)
class Sentences:
    """S sentences of the best documents of a ranking.

    ranks (S,): the 0-based rank of each sentence's document. vectors (S, D): unit; None for a search by
    words alone. words: the numbers of the words of each sentence.
    """

    ranks: Ints
    vectors: Floats | None
    words: Sequence[Words]


def sentence_weights(head: AttentionHead, query: QueryWords, ranking: Ranking, sentences: Sentences) -> Floats:
    """Return the attention weights (S,) of sentences, S > 0.

    The weights of the sentences of a document sum to the weight of the document: alpha_n softmax_s(logit_s). The logits
    use the query vector and the facts of the ranking. BM25 is relative to the best of the sentences.
    """
    logits = head.candidate_logits(*_dense(head, query, ranking, sentences))[0]
    weights = np.empty(len(logits), np.float32)
    for rank in np.unique(sentences.ranks):
        own = sentences.ranks == rank
        weights[own] = ranking.weights[rank] * softmax(logits[own][None])[0]
    return weights


def _dense(head: AttentionHead, query: QueryWords, ranking: Ranking, sentences: Sentences) -> tuple[Floats, Candidates]:
    """Return the dense evidence (1, S, DENSE) of the sentences, and the sentences as candidates of one query."""
    count = len(sentences.ranks)
    vectors = np.zeros((0, len(ranking.asked)), np.float32) if sentences.vectors is None else sentences.vectors
    each, no_floats = np.arange(len(vectors)), np.empty(0, np.float32)
    candidates = Candidates(
        keys=vectors,
        pair_query=np.zeros_like(each),
        pair_key=each,
        pair_slot=each,
        pair_kind=np.full_like(each, PASSAGE),
        words=_word_evidence(query, sentences.words)[None],
        facts=ranking.candidates.facts[None],
        mask=np.ones((1, count), np.bool_),
        memory_slot=np.empty(0, np.int64),
        memory_cosine=no_floats,
        memory_weight=no_floats,
        trust=None if ranking.candidates.trust == 1 else np.asarray([ranking.candidates.trust], np.float32),
    )
    return head.dense(ranking.asked[None], candidates), candidates


def _word_evidence(query: QueryWords, words: Sequence[Words]) -> Floats:
    """Return the word evidence (S, len(LEXICAL)) of sentences."""
    lengths = [len(one) for one in words]
    if not sum(lengths) or not len(query.words):
        return np.zeros((len(words), len(LEXICAL)), np.float32)
    first = np.concatenate([[0], np.cumsum(lengths)])
    found = find_words(query, np.concatenate(words), first, np.arange(len(words)))
    by_source = bm25(query, found, max(1.0, float(np.mean(lengths))))
    best = float(by_source.sum(axis=1).max())
    shares = by_source / np.float32(best) if best > 0 else by_source
    return np.column_stack([shares[:, Source.EXACT], *match(query, found), shares[:, Source.EXACT + 1 :]])
