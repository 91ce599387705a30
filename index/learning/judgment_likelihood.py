"""The likelihood of held-out judgments: how probable a head makes the relevant documents among the candidates.

nDCG@10 of a query changes only where a relevant document changes its place among the first ten, so few queries say
little about a small gain. The likelihood uses the logits of all queries: P(n | query) is the softmax over the documents
of g(distance_n) (`conditional_logit`), where the documents are the candidates of both heads. All queries weigh alike,
and the documents of a query by their grades (as the top-one probabilities of ListNet, Cao et al. 2007).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from index.evaluation.measures import Qrels
from index.learning.conditional_logit import ChoiceTable, Doubles
from index.records import Floats

JUDGED = "log likelihood per judgment"
"""The name of the measure."""


@dataclass(frozen=True)
class Ranked:
    """The rows (N,) of the candidates of a query, best first, as strings, and their logits (N,) under a head."""

    rows: Sequence[str]
    logits: Floats

    def among(self, shown: Collection[int] | None) -> "Ranked":
        """Return the documents with these rows, or all documents."""
        if shown is None:
            return self
        kept = [at for at, row in enumerate(self.rows) if int(row) in shown]
        return Ranked([self.rows[at] for at in kept], self.logits[kept])

    def logits_of(self, rows: Sequence[str]) -> Doubles:
        """Return the logits (n,) of these rows; one that is not among the documents has the last logit."""
        known = dict(zip(self.rows, self.logits.tolist(), strict=True))
        last = min(known.values(), default=0.0)
        return np.asarray([known.get(row, last) for row in rows], np.float64)


def judgment_likelihoods(
    before: Mapping[str, Ranked], after: Mapping[str, Ranked], qrels: Qrels
) -> tuple[dict[str, float], dict[str, float]]:
    """Return query key -> mean log probability of a relevant document, for both heads.

    before, after: query key -> the candidates under each. The queries are those of qrels with a relevant document.
    Where neither head has one, both values are 0. g is fitted on the same queries: with few of them, halves would say
    less, and its three weights raise both heads alike.
    """
    judged = sorted(key for key, grades in qrels.items() if any(grade > 0 for grade in grades.values()))
    grades: dict[str, tuple[Doubles, Doubles]] = {}
    logits: tuple[dict[str, Doubles], dict[str, Doubles]] = ({}, {})
    for key in judged:
        rows = list(dict.fromkeys([*before[key].rows, *after[key].rows]))
        own = np.asarray([max(0, qrels[key].get(row, 0)) for row in rows], np.float64)
        if own.any():
            grades[key] = np.zeros(len(rows)), own
            logits[0][key], logits[1][key] = before[key].logits_of(rows), after[key].logits_of(rows)
    table = ChoiceTable.of(grades, dict.fromkeys(grades, 1.0))
    unknown = dict.fromkeys(judged, 0.0)
    return unknown | table.likelihoods(logits[0]), unknown | table.likelihoods(logits[1])
