"""Makes a model from the documents alone: initial weights that fit the collection, without feedback and without labels.

The weights of the word parts get a balance (`AttentionHead.word_factor`): a query that has a near passage, but whose
words no document covers, is ranked more by meaning, and the other way round. The map from these statistics of a query
to the weight of words was learned from the judgments of other collections (docs/experiments.md, decision 0021). The
collection itself gives the scale of its cosines: it differs between collections and between encoders.

Queries made from the collection's own texts check the result: the guard compares it with the head that it starts from.
"""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from index.evaluation.significance import Check, Decision
from index.generation.generation import Generation
from index.learning.config import Step
from index.learning.fit import Fitted, describe
from index.learning.made_queries import SourceText
from index.learning.null_slot import calibrate_from_documents
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Query
from index.ranking.search import search
from index.records import Floats, Ints

CONSTANT, SLOPE = -1.037, 4.374
"""The map: the logarithm of the weight of words is CONSTANT - SLOPE x, for the contrast x of a query (`Balance`)."""
LENGTH_SLOPE = 0.5
"""How much less coverage is expected of a long query: in units of coverage, from no word to `LONG_QUERY` words."""
MAX_KEYS = 20_000
"""Keys that the mean cosine is computed from, at most: evenly spaced in the order of the keys."""
MAX_MEAN_COSINE = 0.9
"""Mean cosine of two keys above which cosines say too little about meaning."""
MADE_WORDS = 8
"""Words of a query that is made from the text of a document."""
FIRST = 10
LEAST_SHARED = 0.5
"""Share of the first ten documents that both heads have in common, at least."""
MOST_LOST = 0.02
"""Share of made queries whose own document may leave the first ten."""

Encode = Callable[[Sequence[str]], Floats]
"""Query texts to unit vectors (len(texts), D)."""


@dataclass(frozen=True)
class GuardQuery:
    """A query made from the title or the text of the document `row`, with its unit vector (D,)."""

    row: int
    text: str
    vector: Floats


@dataclass(frozen=True)
class Balance:
    """The map from a query to the weight of words: log weight = constant - slope x, before the bound by tanh.

    The contrast is x = (p - m) / (1 - m) - c - LENGTH_SLOPE (l - 1/2): best passage cosine p, mean cosine m of the
    collection, best coverage c, and the fact `length` l.
    """

    constant: float = CONSTANT
    slope: float = SLOPE
    length_slope: float = LENGTH_SLOPE

    def coefficients(self, mean_cosine: float) -> tuple[float, float, float, float]:
        """Return `HeadConfig.balance` for a collection with this mean cosine, below 1."""
        by_passage = -self.slope / (1 - mean_cosine)
        by_length = self.slope * self.length_slope
        constant = self.constant - by_passage * mean_cosine - by_length / 2
        return constant, by_passage, self.slope, by_length


def fit_from_documents(
    generation: Generation,
    initial: HeadConfig,
    texts: Sequence[SourceText],
    encode: Encode,
    balance: Balance | None = None,
) -> Generator[Step, None, Fitted]:
    """Return a head with weights for this collection, its report and the guard's decision; yields a Step per piece.

    initial: the configuration to start from. texts: documents that queries are made from. The head is untrained
    (`is_untrained`): its configuration holds what was found. Where the guard finds fault, the weights are the initial
    ones. The null slot is calibrated in either case (`null_slot`); a head that differs by its null slot alone may
    serve, because it ranks as the initial head. Same arguments, same bits.
    """
    mean = mean_cosine(generation)
    yield Step("documents", 1, 2)
    queries = guard_queries(texts, encode)
    before = AttentionHead(initial)
    head = AttentionHead(replace(initial, balance=(balance or Balance()).coefficients(min(mean, MAX_MEAN_COSINE))))
    checks = guard(generation, before, head, queries, mean)
    passed = all(check.passed for check in checks)
    if not passed:
        head = before
    head, made_for_null = calibrate_from_documents(generation, head, texts, encode)
    calibrated = head.is_null_calibrated
    yield Step("documents", 2, 2)
    report: dict[str, Any] = {
        "documents": generation.count,
        "made_queries": len(queries),
        "mean_cosine": round(mean, 4),
        "balance": [round(value, 4) for value in head.config.balance],
        "null_slot": {"made_queries": made_for_null, "calibrated": calibrated},
        "guard": [asdict(check) for check in checks],
        "head": describe(head),
    }
    return Fitted(head, report, Decision(passed or calibrated, tuple(checks)))


def mean_cosine(generation: Generation) -> float:
    """Return the mean cosine of two keys of living documents, 0 without keys.

    The mean over all pairs of unit vectors is the squared length of their mean.
    """
    living = np.flatnonzero(generation.alive[generation.key_doc_index])
    if not len(living):
        return 0.0
    chosen = living[:: -(-len(living) // MAX_KEYS)]
    mean = generation.key_vectors(chosen).mean(axis=0, dtype=np.float64)
    return float(mean @ mean)


def guard_queries(texts: Sequence[SourceText], encode: Encode) -> list[GuardQuery]:
    """Return a query for each document with words: every second title, else some words from the middle of the text."""
    made = [(one.row, _made_text(one, at % 2 == 0)) for at, one in enumerate(texts)]
    made = [(row, text) for row, text in made if text]
    vectors: Sequence[Floats] = list(encode([text for _, text in made])) if made else []
    return [GuardQuery(row, text, vector) for (row, text), vector in zip(made, vectors, strict=True)]


def _made_text(one: SourceText, by_title: bool) -> str:
    """Return the title, or words of the text that begin at its middle. A text without spaces gives letters."""
    if by_title and len(one.title.split()) > 1:
        return one.title.strip()
    words = re.findall(r"\S{1,40}", one.text) or one.title.split()
    middle = max(0, (len(words) - MADE_WORDS) // 2)
    return " ".join(words[middle : middle + MADE_WORDS])


def guard(
    generation: Generation, before: AttentionHead, after: AttentionHead, queries: Sequence[GuardQuery], mean: float
) -> list[Check]:
    """Return the checks that a head must pass to serve: bounds on how far its rankings are from those before it.

    The weights themselves are bounded: no word part changes by a factor outside 1/e to e.
    """
    spread = Check(
        "spread",
        mean <= MAX_MEAN_COSINE,
        f"the mean cosine of two keys is {mean:.2f}, and at most {MAX_MEAN_COSINE:g} is wanted",
    )
    if not queries:
        return [spread, Check("made_queries", False, "no query can be made from the documents")]
    shared, found = zip(*(_compared(generation, before, after, one) for one in queries), strict=True)
    lost = float(np.mean([was - now for was, now in found]))
    together = float(np.mean(shared))
    return [
        spread,
        Check(
            "shared_documents",
            together >= LEAST_SHARED,
            f"{100 * together:.0f} % of the first {FIRST} documents of {len(queries)} made queries stay, and at least "
            f"{100 * LEAST_SHARED:.0f} % are wanted",
        ),
        Check(
            "own_documents",
            lost <= MOST_LOST,
            f"{100 * lost:+.1f} % of made queries lose their own document from the first {FIRST}, and at most "
            f"{100 * MOST_LOST:g} % may",
        ),
    ]


def _compared(
    generation: Generation, before: AttentionHead, after: AttentionHead, one: GuardQuery
) -> tuple[float, tuple[bool, bool]]:
    """Return the share of the first documents that both heads have, and whether each has the query's own document."""
    first: list[Ints] = []
    for head in (before, after):
        ranking = search(generation, head, Query(one.text, one.vector))
        first.append(generation.rows[ranking.doc_indices[:FIRST]])
    most = max(1, len(first[0]))
    return len(np.intersect1d(first[0], first[1])) / most, (one.row in first[0], one.row in first[1])
