"""Two matrices about the first hits of a search: words of the query by keys, and parts of the logit by documents.

The encoder gives one vector per text and no vector per word. The share of a word in a cosine is therefore measured by
occlusion: the query is encoded again without the word. Source: Zeiler and Fergus 2014, section 4.2 (occlusion of parts
of an image).

Letters: Q words of a query, K keys, D key width, H heads, E parts of a logit, n hits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from index.generation.generation import Generation
from index.ranking.array_api import softmax
from index.ranking.attention import PARTS, AttentionHead
from index.ranking.explanation import KeyShare, own_keys
from index.ranking.retrieval import Query
from index.ranking.search import Ranking
from index.records import Floats
from index.words.tokens import Token, tokens

MAX_HITS = 10
"""Hits that the matrices show."""
MAX_WORDS = 32
"""Words of a query that the matrix shows: each is one more text to encode."""
MAX_KEYS = 40
"""Keys that the matrix shows, over all hits."""
MAX_KEYS_PER_HIT = 8


@dataclass(frozen=True)
class WordsByKeys:
    """The effect of each word of a query on the score of each key.

    keys (K,): pairs of the 0-based rank of a hit and a key of it. cosines (K,): the score of the key for the whole
    query. cells (Q, K): the score for the whole query minus the score for the query without the word.
    """

    keys: Sequence[tuple[int, KeyShare]]
    cosines: Floats
    cells: Floats


def words_of_query(text: str) -> list[Token]:
    """Return the words of a query with their character offsets, in reading order; all of them, without a limit."""
    return list(tokens(text))


def without_each(text: str, words: Sequence[Token]) -> list[str]:
    """Return the text without each of these words (Q,); an empty text where no other word is left."""
    if len(words) < 2:
        return [""] * len(words)
    return [" ".join((text[: word.start] + text[word.end :]).split()) for word in words]


def keys_of_each(hits: int) -> int:
    """Return the number of keys that each of some hits shows: MAX_KEYS_PER_HIT, and MAX_KEYS together, at most."""
    return min(MAX_KEYS_PER_HIT, MAX_KEYS // max(1, hits))


def strongest_keys(
    generation: Generation, head: AttentionHead, ranking: Ranking, ranks: Sequence[int], each: int
) -> list[tuple[int, KeyShare]]:
    """Return (rank, key) for the own keys with the largest shares of the hits at these 0-based ranks, `each` at most.

    A share is within the keys of one kind. The keys of a hit are in the order of their kinds, and within a kind in
    reading order.
    """
    found = []
    for rank in ranks:
        keys = own_keys(generation, head, ranking.asked, int(ranking.doc_indices[rank]))
        best = sorted(keys, key=lambda key: (-key.share, key.key_index))[:each]
        found += [(rank, key) for key in sorted(best, key=lambda key: (key.kind, key.key_index))]
    return found


def words_by_keys(
    generation: Generation,
    head: AttentionHead,
    query: Query,
    ranking: Ranking,
    ranks: Sequence[int],
    without: Floats,
    each: int,
) -> WordsByKeys:
    """Return the matrix of the words of a query (Q) and the strongest keys (K) of the hits at these 0-based ranks.

    without (Q, D): the vector of the query without each word; zeros where no other word is left. With a context or a
    second hop, the vectors without a word are moved by the same difference e' - e as the whole query. each: the number
    of keys of a hit at most.
    """
    keys = strongest_keys(generation, head, ranking, ranks, each)
    vectors = generation.key_vectors(np.asarray([key.key_index for _, key in keys], np.int64))
    moved = ranking.asked - query.vector
    scores = key_scores(head, np.vstack([ranking.asked[None], without + moved]), vectors)
    return WordsByKeys(keys, scores[0], occlusion(scores))


def occlusion(scores: Floats) -> Floats:
    """Return the cells (Q, K) for scores (1 + Q, K): the first row is the whole query, the others lack one word each.

    A cell is positive where the word raises the score of the key. Cells of a key need not sum to its score.
    """
    cells: Floats = scores[:1] - scores[1:]
    return cells


def key_scores(head: AttentionHead, queries: Floats, keys: Floats) -> Floats:
    """Return the score of each query (B, D) with each key (K, D), as (B, K): the mean over heads by the head gate.

    It is the cosine for unit vectors and an untrained head.
    """
    batch, count = len(queries), len(keys)
    pairs = np.repeat(np.arange(batch), count), np.tile(np.arange(count), batch)
    scores = head.score(queries, keys, *pairs).reshape(batch, count, head.config.heads)
    mean: Floats = np.einsum("bkh,bh->bk", scores, softmax(queries @ head.head_gate))
    return mean


def parts_by_documents(ranking: Ranking, ranks: Sequence[int]) -> tuple[tuple[str, ...], Floats]:
    """Return the names (E,) and the values (E, n) of the parts of the logits at these 0-based ranks.

    A column sums to the logit. Only a model with trees or priors has the part `trees`, only one with priors `prior`.
    """
    cells: Floats = ranking.parts[np.asarray(ranks, np.int64)].T
    return PARTS[: len(cells)], cells
