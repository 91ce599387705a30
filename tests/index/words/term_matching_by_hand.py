"""Term matching and BM25 in plain Python over lists of words."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

Word = str | int


def coverage_by_hand(query: Sequence[Word], weight: Mapping[Word, float], document: Sequence[Word]) -> float:
    """Return the share of the query's distinct words, by weight, that the document contains."""
    wanted = set(query)
    total = sum(weight[word] for word in wanted)
    return sum(weight[word] for word in wanted & set(document)) / total if total else 0.0


def proximity_by_hand(query: Sequence[Word], weight: Mapping[Word, float], document: Sequence[Word]) -> float:
    """Return the best coverage of a window of 32 words; windows start at every 16th word."""
    windows = [document[start : start + 32] for start in range(0, len(document), 16)]
    return max((coverage_by_hand(query, weight, window) for window in windows), default=0.0)


def phrase_by_hand(query: Sequence[Word], weight: Mapping[Word, float], document: Sequence[Word]) -> float:
    """Return the share of the query's distinct adjacent pairs, by weight, that are adjacent in the document."""
    pairs, here = set(pairwise(query)), set(pairwise(document))
    total = sum(weight[left] + weight[right] for left, right in pairs)
    return sum(weight[left] + weight[right] for left, right in pairs & here) / total if total else 0.0


def matches_by_hand(query: Sequence[Word], weight: Mapping[Word, float], document: Sequence[Word]) -> list[float]:
    """Return coverage, proximity and phrase."""
    return [feature(query, weight, document) for feature in (coverage_by_hand, proximity_by_hand, phrase_by_hand)]


def bm25_by_hand(query: Sequence[Word], weight: Mapping[Word, float], document: Sequence[Word], mean: float) -> float:
    """Return BM25 with k1 1.2 and b .75; weight is the idf. A repeated query word counts repeatedly."""
    norm = 1.2 * (1 - 0.75 + 0.75 * len(document) / mean)
    counts = [document.count(word) for word in query]
    return sum(weight[word] * count * 2.2 / (count + norm) for word, count in zip(query, counts, strict=True))
