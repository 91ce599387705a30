"""The groups of queries that cross-validation left out, and the measures of logits on their queries."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from index.evaluation.measures import measure_run
from index.generation.generation import Generation
from index.learning.click_likelihood import ClickTable, click_counts
from index.learning.examples import Example, log_propensity
from index.learning.model_selection import NDCG, ClickInterpretations, Selection
from index.ranking.attention import AttentionHead
from index.records import Floats

Doubles = NDArray[np.float64]


def groups_of(selection: Selection) -> list[tuple[frozenset[int], AttentionHead]]:
    """Return the folds that each trial of cross-validation left out, and its head."""
    heads = {id(trial): trial.head for trial in selection.trials.values()}
    return [
        (frozenset(fold for fold, trial in selection.trials.items() if id(trial) == known), head)
        for known, head in heads.items()
    ]


def measure_logits(
    generation: Generation,
    examples: Sequence[Example],
    logits: Sequence[Floats],
    interpretations: ClickInterpretations,
) -> tuple[Doubles, Doubles]:
    """Return nDCG@10 and the log likelihood per click (queries,), by query key; NaN for queries without clicks.

    logits: of the candidates (N,) of each example. nDCG@10 is over the candidates; with clicks, over those that a list
    showed.
    """
    run: dict[str, list[str]] = {}
    shown: dict[str, Floats] = {}
    clicks: dict[str, tuple[Floats, Doubles]] = {}
    for example, own in zip(examples, logits, strict=True):
        query = example.feedback.query_key
        order = np.argsort(-own, kind="stable")
        rows = generation.rows[example.candidates.doc_indices[order]]
        clicked = interpretations.clicked.get(query)
        if clicked is not None:
            known = np.asarray([row in (clicked.shown or {}) for row in rows.tolist()], np.bool_)
            order, rows = order[known], rows[known]
            counts = click_counts(clicked, rows.tolist())
            if counts.any():
                clicks[query] = log_propensity(clicked.shown, interpretations.curve, rows), counts
                shown[query] = own[order]
        run[query] = [str(row) for row in rows[:10].tolist()]
    qrels = {query: interpretations.qrels[query] for query in run}
    ndcg = measure_run(run, qrels, [NDCG])[NDCG]
    likelihood = ClickTable.of(clicks).likelihoods(shown)
    return _by_query(ndcg, sorted(ndcg)), _by_query(likelihood, sorted(ndcg))


def _by_query(measured: Mapping[str, float], queries: Sequence[str]) -> Doubles:
    return np.asarray([measured.get(query, np.nan) for query in queries], np.float64)
