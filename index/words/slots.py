"""What a search looks for: the slots of a query, each with the terms of the index that stand for its word.

A document takes the best of a slot, as in `index.words.term_matching`, and the slots add up.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from index.records import Ints
from index.words.postings import Factors, Postings
from index.words.query_words import QueryWords, Source
from index.words.vocabulary import Vocabulary

OTHER_COMPLETIONS = 0.05
"""How much of their scores the other completions of a word add to the best of them. The exact score counts completions
together, as a single word, which the library cannot."""


class Slot(NamedTuple):
    """The terms that stand for a word of the query, by source, with their weights.

    A weight is the idf that the term has in the exact score, times its factor, times how often the query has the slot's
    word. exact: one term for each word, or the terms of a phrase. corrected: terms that may match in some documents
    only. completed: terms that the exact score counts together.
    """

    exact: tuple[Factors, ...]
    corrected: Factors = ()
    completed: Factors = ()


def slots_of(query: QueryWords, terms: Mapping[int, str], vocabulary: Vocabulary) -> tuple[Slot, ...]:
    """Return the slots of a query.

    terms: number -> term; the terms of a phrase have spaces between them, and share its factor.
    """
    exact: list[list[Factors]] = [[] for _ in query.weight]
    corrected: list[list[tuple[str, float]]] = [[] for _ in query.weight]
    completed: list[list[tuple[str, float]]] = [[] for _ in query.weight]
    factors = query.factor * np.bincount(query.of_query, minlength=len(query.weight))[query.slot]
    columns = (query.words, query.slot, query.source, factors, query.idf)
    for number, slot, source, factor, idf in zip(*(column.tolist() for column in columns), strict=True):
        term = terms[number]
        if source == Source.EXACT:
            exact[slot].append(_phrase(term, factor, vocabulary) if " " in term else ((term, factor * idf),))
        else:
            (corrected if source == Source.CORRECTED else completed)[slot].append((term, factor * idf))
    return tuple(Slot(tuple(own), *others) for own, *others in zip(exact, corrected, completed, strict=True))


def _phrase(phrase: str, factor: float, vocabulary: Vocabulary) -> Factors:
    terms = phrase.split(" ")
    return [(term, factor / len(terms) * vocabulary.term_idf(term)) for term in terms]


def without_phrases(slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return the slots without the phrases that stand for their words."""
    return tuple(slot._replace(exact=tuple(word for word in slot.exact if len(word) == 1)) for slot in slots)


def scores_of_recent(slots: Sequence[Slot], postings: Postings, corrected: Ints | None) -> dict[int, float]:
    """Return row -> BM25 score of the recent documents, as the library scores those in the files.

    corrected (m,): the rows that corrected words may match; None for all.
    """
    here = None if corrected is None else set(corrected.tolist())
    scores: dict[int, float] = {}
    for slot in slots:
        completed = [postings.search_recent([term]) for term in slot.completed]
        found = [_best_of(completed, OTHER_COMPLETIONS), *(postings.search_recent(word) for word in slot.exact)]
        for term in slot.corrected:
            every = postings.search_recent([term])
            found.append({row: score for row, score in every.items() if here is None or row in here})
        for row, score in _best_of(found).items():
            scores[row] = scores.get(row, 0.0) + score
    return scores


def _best_of(found: Sequence[Mapping[int, float]], others: float = 0.0) -> dict[int, float]:
    """Return the best score of each row, and a share of its other scores."""
    best: dict[int, float] = {}
    total: dict[int, float] = {}
    for scores in found:
        for row, score in scores.items():
            best[row] = max(score, best.get(row, 0.0))
            total[row] = total.get(row, 0.0) + score
    return {row: score + others * (total[row] - score) for row, score in best.items()}
