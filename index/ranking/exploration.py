"""Exploration: an order of documents sampled from the attention, and the probability with which it was chosen.

The order is a Plackett-Luce sample (Plackett 1975): position by position, a document is drawn from the softmax of the
logits of the documents that are left. Gumbel noise on the logits samples the whole order by one sort (Gumbel top-k,
Kool et al. 2019). A share of the searches is explored; the others show the documents in their own order. The logging
policy is this mixture.

Sees logits and positions, never documents.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.records import Floats, Ints, Mask

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Exploration:
    """The drawn order of a list of n hits.

    order (n,): the 0-based places of the hits in the list as it was before. probabilities (n,) in (0, 1]: for each
    position of the drawn order, the probability that the logging policy puts this hit there, given the hits above. Its
    product over the first positions is the probability of these positions. sampled: whether the order is a sample.
    """

    order: Ints
    probabilities: Doubles
    sampled: bool


def explore(logits: Floats | Doubles, kept: Mask, share: float, generator: np.random.Generator) -> Exploration:
    """Return the order of n hits: with probability `share` a Plackett-Luce sample, otherwise the order as it is.

    logits (n,): of the hits, in their order. kept (n,) bool: hits that keep their place; their probability is 1.
    """
    free = np.flatnonzero(~kept)
    own = logits[free].astype(np.float64)
    sampled = bool(generator.random() < share)
    drawn = sampled_order(own, generator) if sampled else np.arange(len(free))
    order = np.arange(len(logits))
    order[free] = free[drawn]
    probabilities = np.ones(len(logits))
    probabilities[free] = mixture_probabilities(choice_logs(own[drawn]), drawn == np.arange(len(free)), share)
    return Exploration(order, probabilities, sampled)


def sampled_order(logits: Doubles, generator: np.random.Generator) -> Ints:
    """Return a Plackett-Luce sample (n,): the places of the logits (n,), sorted by logit plus Gumbel noise."""
    order: Ints = np.argsort(-(logits + generator.gumbel(size=len(logits))), kind="stable")
    return order


def choice_logs(ordered: Doubles) -> Doubles:
    """Return (..., n) the log probability of each choice of Plackett-Luce, given the choices before it.

    ordered (..., n): the logits of all documents in the order in which they are chosen.
    """
    left = np.logaddexp.accumulate(ordered[..., ::-1], axis=-1)[..., ::-1]
    logs: Doubles = ordered - left
    return logs


def mixture_probabilities(logs: Doubles, is_own: Mask, share: float) -> Doubles:
    """Return (..., n) the probability of each choice of the mixture, given the choices before it.

    logs (..., n): the log probabilities of the choices in a sample. is_own (..., n) bool: whether the choice is the
    choice of the order as it is. The probability of the first k choices is (1 - share) [all are own] + share
    prod_{j<=k} exp logs_j.
    """
    with np.errstate(divide="ignore"):
        own, of_sample = np.log(np.array([1.0 - share, share]))
    unchanged = np.logical_and.accumulate(is_own, axis=-1)
    prefix = np.logaddexp(np.where(unchanged, own, -np.inf), of_sample + np.cumsum(logs, axis=-1))
    probabilities: Doubles = np.minimum(1.0, np.exp(np.diff(prefix, prepend=0.0)))
    return probabilities
