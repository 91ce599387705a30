"""The explanation of a hit: the parts of its logit, and the keys that they come from with their shares."""

from dataclasses import dataclass

import numpy as np

from index.generation.generation import Generation
from index.ranking.array_api import softmax
from index.ranking.attention import PARTS, AttentionHead
from index.ranking.retrieval import Query
from index.ranking.search import Ranking
from index.records import Floats, KeyKind

LEAST_SHARE = np.float32(1e-30)
"""Least weight of a key: an exponential that underflows to 0 would leave the mean over heads undefined."""


@dataclass(frozen=True)
class KeyShare:
    """A key of a hit: its score and its share of the pooled score of its kind.

    start and end are the character offsets of an own key in the document's text, and key_index is its index in the
    keys of the generation. For a past query, query_key is its query key and confirmations is the number of
    confirmations merged in it.
    """

    kind: KeyKind
    score: float
    share: float
    start: int = 0
    end: int = 0
    query_key: str | None = None
    confirmations: int = 0
    key_index: int = -1


def explain_parts(ranking: Ranking, rank: int) -> dict[str, float]:
    """Return the parts of the logit of the hit at a 0-based rank, by name; they add up to it.

    Only a model with trees or priors has the part `trees`, and only one with priors the part `prior`.
    """
    return {name: float(part) for name, part in zip(PARTS, ranking.parts[rank], strict=False)}


def explain_keys(
    generation: Generation, head: AttentionHead, query: Query, ranking: Ranking, rank: int
) -> list[KeyShare]:
    """Return the keys of the hit at a 0-based rank: its own keys, then the past queries that confirm it."""
    doc_index = int(ranking.doc_indices[rank])
    shares = own_keys(generation, head, ranking.asked, doc_index) if query.by_keys else []
    return shares + _past_queries(generation, head, ranking, doc_index)


def _past_queries(generation: Generation, head: AttentionHead, ranking: Ranking, doc_index: int) -> list[KeyShare]:
    found, memory = ranking.candidates, generation.memory
    mine = found.doc_indices[found.memory_candidate] == doc_index
    near = np.exp(float(np.exp(head.log_memory_sharpness)) * (found.memory_cosine[mine] - 1))
    weight = found.memory_weight[mine] * np.where(found.memory_same[mine], 1, near)
    total = float(np.abs(weight).sum()) or 1.0
    shares = []
    for key, cosine, part in zip(found.memory_key[mine], found.memory_cosine[mine], weight, strict=True):
        query_key, count = memory.query_key_of(key), int(memory.counts[key])
        share = float(part) / total
        shares.append(KeyShare(KeyKind.QUERY, float(cosine), share, query_key=query_key, confirmations=count))
    return shares


def best_passage(generation: Generation, head: AttentionHead, ranking: Ranking, rank: int) -> tuple[int, int]:
    """Return the character offsets of the passage or sentence with the most attention in the hit at a 0-based rank."""
    keys = own_keys(generation, head, ranking.asked, int(ranking.doc_indices[rank]))
    inside = [key for key in keys if key.kind is not KeyKind.TITLE]
    best = max(inside, key=lambda key: (key.kind is KeyKind.SENTENCE, key.share), default=None)
    return (best.start, best.end) if best else (0, 0)


def own_keys(generation: Generation, head: AttentionHead, asked: Floats, doc_index: int) -> list[KeyShare]:
    """Return the keys of a document for the query vector asked (D,), by kind and in reading order."""
    columns = generation.columns
    keys = slice(int(columns.first_key[doc_index]), int(columns.first_key[doc_index + 1]))
    own = generation.key_vectors(np.arange(keys.start, keys.stop))
    each = np.arange(len(own))
    scores = head.score(asked[None], own, np.zeros_like(each), each)
    by_head = softmax(asked[None] @ head.head_gate)[0]
    sharpness = np.exp(head.log_sharpness)
    kinds = columns.key_kind[keys]
    shares = []
    for kind in np.unique(kinds):
        same_kind = np.flatnonzero(kinds == kind)
        weight = np.exp(sharpness[kind] * (scores[same_kind] - scores[same_kind].max(axis=0)))
        weight = np.maximum(weight, LEAST_SHARE)
        weight = by_head * weight / weight.sum(axis=0)  # shares of the pooled score; they sum to 1 over keys and heads
        score = (weight * scores[same_kind]).sum(axis=1) / weight.sum(axis=1)
        for offset, share, key_score in zip(same_kind, weight.sum(axis=1), score, strict=True):
            at = keys.start + int(offset)
            start, end = (int(side[at]) for side in (columns.key_start, columns.key_end))
            shares.append(KeyShare(KeyKind(int(kind)), float(key_score), float(share), start, end, key_index=at))
    return shares
