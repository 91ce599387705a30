"""The boost of documents that judgments or clicks confirm for exactly the words of a query: they come first.

Sees the logits and the candidates of one query. Queries without such a document keep every bit of their ranking.
"""

import numpy as np

from index.ranking.retrieval import CandidateSet
from index.records import Floats, Mask

MOST_EXACT = 3
"""Documents that come first at most: those with the best exact ratings."""
EXACT_MARGIN = np.float32(1.0)
"""Least distance in logits between documents that come first, and from the last of them to the next document."""


TITLE_MARGIN = np.float32(0.25)
"""Least distance in logits from the documents whose title is the query to the next document."""


def title_boost(logits: Floats, titled: Mask | None) -> Floats | None:
    """Return what is added to the logits (N,) so that documents whose title is the query come first, None for nothing.

    titled (N,): these documents. They keep their order, and each is raised only as far as it must: those that are less
    than two margins above the others get logits between one margin and two, in proportion. So feedback on one of them
    changes the order.
    """
    if titled is None or not titled.any() or titled.all():
        return None
    own = logits[titled]
    first = logits[~titled].max() + TITLE_MARGIN
    last, least = first + TITLE_MARGIN, min(first, own.min())
    raised = first + TITLE_MARGIN * (own - least) / (last - least)
    boost = np.zeros_like(logits)
    boost[titled] = np.where(own < last, np.maximum(raised - own, 0), 0)
    return boost


def exact_boost(logits: Floats, candidates: CandidateSet) -> Floats | None:
    """Return what is added to the logits (N,) so that the best exact ratings come first, None if nothing is.

    The order is the rating, then the logit, then the order of the candidates, by document id. From the last document to
    the first, each is raised to at least EXACT_MARGIN above the logits after it; a document that is already there keeps
    its logit.
    """
    best = sorted(candidates.exact, key=lambda pair: (-pair[1], -logits[pair[0]]))[:MOST_EXACT]
    if not best:
        return None
    boost = np.zeros_like(logits)
    others = np.ones(len(logits), np.bool_)
    others[[candidate for candidate, _ in best]] = False
    below = logits[others].max(initial=-np.inf)
    for candidate, _ in reversed(best):
        boost[candidate] = max(np.float32(0), below + EXACT_MARGIN - logits[candidate])
        below = logits[candidate] + boost[candidate]
    return boost
