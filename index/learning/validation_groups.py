"""The groups of queries that cross-validation left out, and the measures of logits on their queries."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from index.evaluation.measures import measure_run
from index.generation.generation import Generation
from index.learning.click_likelihood import CLICKS, Clicked, click_counts, click_table
from index.learning.clicked_ranks import RANKS, rank_measures
from index.learning.examples import Example, Showings, expected_examinations, log_propensity
from index.learning.model_selection import NDCG, ClickInterpretations, Selection
from index.memory.click_worth import ASSUMED_CURVE
from index.ranking.attention import AttentionHead
from index.records import Floats

Doubles = NDArray[np.float64]
MIN_QUERIES = 40
"""Least number of queries with a confirmed document that trees or priors are fitted to."""


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
    before: Sequence[Floats] | None = None,
) -> dict[str, Doubles]:
    """Return measure -> its values (queries,), by query key: nDCG@10 and those of clicks, NaN for queries without them.

    logits: of the candidates (N,) of each example. nDCG@10 is over the candidates; with clicks, over those that a list
    showed. before: other logits of the same candidates; `RANKS` is the gain over them.
    """
    run: dict[str, list[str]] = {}
    shown: dict[str, Floats] = {}
    clicks: dict[str, tuple[Floats, Doubles]] = {}
    pairs: tuple[dict[str, Clicked], dict[str, Clicked]] = ({}, {})
    for example, own, other in zip(examples, logits, before or logits, strict=True):
        query = example.feedback.query_key
        rows = generation.rows[example.candidates.doc_indices]
        clicked = interpretations.clicked.get(query)
        if clicked is not None:
            known = np.asarray([row in (clicked.shown or {}) for row in rows.tolist()], np.bool_)
            own, other, rows = own[known], other[known], rows[known]
            counts = click_counts(clicked, rows.tolist())
            if counts.any():
                clicks[query] = log_propensity(clicked.shown, interpretations.curve, rows), counts
                shown[query] = own
                examined = _examinations(clicked.shown or {}, interpretations.curve, rows.tolist())
                for side, logits_of in zip(pairs, (other, own), strict=True):
                    side[query] = Clicked(logits_of, clicks[query][0], counts, examined)
        rows = rows[np.argsort(-own, kind="stable")]
        run[query] = [str(row) for row in rows[:10].tolist()]
    qrels = {query: interpretations.qrels[query] for query in run}
    ndcg = measure_run(run, qrels, [NDCG])[NDCG]
    least, most = rank_measures(*pairs)
    measures = {
        NDCG: ndcg,
        CLICKS: click_table(clicks).likelihoods(shown),
        RANKS: {query: most[query] - least[query] for query in most},
    }
    return {name: _by_query(of, sorted(ndcg)) for name, of in measures.items()}


def measures_of(options: Sequence[Sequence[Mapping[str, Doubles]]]) -> dict[str, list[Doubles]]:
    """Return measure -> its values (queries,) for each option, from the measures of each option in each group."""
    names = options[0][0]
    return {name: [np.concatenate([of[name] for of in groups]) for groups in options] for name in names}


def _examinations(shown: Showings, curve: Floats | None, rows: Sequence[int]) -> Doubles:
    """Return the expected examinations (n,) of the documents with these rows."""
    known = ASSUMED_CURVE if curve is None else curve
    return np.asarray([expected_examinations(shown.get(row, {}), known) for row in rows], np.float64)


def _by_query(measured: Mapping[str, float], queries: Sequence[str]) -> Doubles:
    return np.asarray([measured.get(query, np.nan) for query in queries], np.float64)
