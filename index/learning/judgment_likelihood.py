"""The likelihood of held-out judgments: how probable a head makes the relevant documents among the candidates.

nDCG@10 of a query changes only where a relevant document changes its place among the first ten, so few queries say
little about a small gain. The likelihood uses the logits of all queries: P(n | query) is the softmax over the documents
of g(distance_n) (`conditional_logit`), where the documents are the best candidates of both heads. A distance is in
units of the mean distance of the query, so that a head gains nothing by the scale of its logits on a query either. All
queries weigh alike, and the documents of a query by their grades (as the top-one probabilities of ListNet, Cao et al.
2007).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from index.evaluation.measures import Qrels
from index.learning.conditional_logit import ChoiceTable, Doubles
from index.records import Floats

JUDGMENTS = "log likelihood per judgment"
"""The name of the measure."""
CANDIDATES = 200
"""Documents of a query that are read for each head, at most."""
QUANTILES = (0.01, 0.03, 0.1, 0.3, 0.6)
"""Quantiles of the distances at which g changes its slope: about those of ranks 3, 7, 20, 60 and 120. Relevant
documents are among the first few of many, where a head with other distances in the same order must not differ."""


@dataclass(frozen=True)
class ScoredRows:
    """The rows (N,) of the candidates of a query, best first, as strings, and their logits (N,) under a head."""

    rows: Sequence[str]
    logits: Floats

    def among(self, shown: Collection[int] | None) -> "ScoredRows":
        """Return the documents that were shown, or all if `shown` is None; the best CANDIDATES of them."""
        kept = [at for at, row in enumerate(self.rows) if shown is None or int(row) in shown][:CANDIDATES]
        return ScoredRows([self.rows[at] for at in kept], self.logits[kept])

    def scores_of(self, rows: Sequence[str]) -> Doubles:
        """Return minus the distance (n,) of each of these rows to the best one, in units of the mean distance.

        A row that is not among the documents has the last logit.
        """
        known = dict(zip(self.rows, self.logits.tolist(), strict=True))
        last = min(known.values())
        logits = np.asarray([known.get(row, last) for row in rows], np.float64)
        scores: Doubles = logits - logits.max()
        return scores / max(-float(scores.mean()), 1e-12)


def judgment_likelihoods(
    before: Mapping[str, ScoredRows], after: Mapping[str, ScoredRows], qrels: Qrels
) -> tuple[dict[str, float], dict[str, float]]:
    """Return query key -> mean log probability of a relevant document, for both heads.

    before, after: query key -> the candidates under each. The queries are those of qrels with a relevant document.
    Where neither head has one, or a head has no candidate, both values are 0. g is fitted on the same queries: with few
    of them, halves would say less, and its six weights raise both heads alike.
    """
    relevant = sorted(key for key, grades in qrels.items() if any(grade > 0 for grade in grades.values()))
    grades: dict[str, tuple[Doubles, Doubles]] = {}
    scores: tuple[dict[str, Doubles], dict[str, Doubles]] = ({}, {})
    for key in relevant:
        rows = list(dict.fromkeys([*before[key].rows, *after[key].rows]))
        own = np.asarray([max(0, qrels[key].get(row, 0)) for row in rows], np.float64)
        if own.any() and before[key].rows and after[key].rows:
            grades[key] = np.zeros(len(rows)), own
            scores[0][key], scores[1][key] = before[key].scores_of(rows), after[key].scores_of(rows)
    table = ChoiceTable.of(grades, dict.fromkeys(grades, 1.0), QUANTILES)
    unknown = dict.fromkeys(relevant, 0.0)
    return unknown | table.likelihoods(scores[0]), unknown | table.likelihoods(scores[1])
