"""Replays logged lists under the attention of a model: how likely the model's own sample has the same prefix.

The policy is the model's Plackett-Luce sample (`index.ranking.exploration`). Its probabilities are above zero for every
order of its candidates, which gives the importance ratios a usable variance; a fixed order seldom matches a logged
prefix. Sees logits and places, never documents.

Letters: M lists of one query, N candidate documents of a model, P positions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.ranking.exploration import Doubles, sampled_order
from index.records import Ints, Mask

ABSENT = -1
"""The place of a document that is not a candidate of the model."""
SAMPLES = 32
"""Samples of a policy, from which its mean attention at each position is computed."""


@dataclass(frozen=True)
class Policy:
    """The documents that a model may choose for one query.

    logits (N,); attention (N,): alpha of the reward model; start (P,): the mean alpha of the document at each position
    of the policy's own samples.
    """

    logits: Doubles
    attention: Doubles
    start: Doubles


@dataclass(frozen=True)
class Replayed:
    """Lists under a policy, all (M, P): log probability of the prefix, and alpha as in `evaluation.off_policy.Replay`.

    logs: down to each position. predicted: of the logged document. expected: the mean over the policy's choices, given
    the logged documents above. start: the mean without any logged document.
    """

    logs: Doubles
    predicted: Doubles
    expected: Doubles
    start: Doubles


def policy(logits: Doubles, attention: Doubles, positions: int, generator: np.random.Generator) -> Policy:
    """Return the policy of a model with these logits (N,) and alpha (N,), for lists of at most P positions."""
    start = np.zeros(positions)
    for _ in range(SAMPLES):
        first = sampled_order(logits, generator)[:positions]
        start[: len(first)] += attention[first] / SAMPLES
    return Policy(logits, attention, start)


def replayed(of: Policy, places: Ints, free: Mask) -> Replayed:
    """Return lists of one query under a policy.

    places (M, P): the place of each logged document among the candidates of the policy, or ABSENT. free (M, P) bool:
    False where no policy chooses, for a document that keeps its place and after the end of the list. These positions
    change no probability and have alpha 0. A prefix with an absent document has the probability 0.
    """
    count, positions = places.shape
    logs, predicted, expected, start = (np.zeros((count, positions)) for _ in range(4))
    left, rows = np.ones((count, len(of.logits)), np.bool_), np.arange(count)
    chosen, so_far = np.zeros(count, np.int64), np.zeros(count)
    for at in range(positions):
        chance, total = _chances(of.logits, left)
        known = free[:, at] & (places[:, at] != ABSENT)
        place = places[known, at]
        choice = np.full(count, -np.inf)
        choice[known] = of.logits[place] - total[known]
        so_far = so_far + np.where(free[:, at], choice, 0.0)
        logs[:, at] = so_far
        predicted[known, at] = of.attention[place]
        expected[:, at] = np.where(free[:, at], chance @ of.attention, 0.0)
        start[:, at] = np.where(free[:, at], of.start[chosen], 0.0)
        left[rows[known], place] = False
        chosen += free[:, at]
        chosen = np.minimum(chosen, positions - 1)
    return Replayed(logs, predicted, expected, start)


def _chances(logits: Doubles, left: Mask) -> tuple[Doubles, NDArray[np.float64]]:
    """Return the softmax (M, N) of the logits (N,) over the documents that are left (M, N), and its log sum (M,)."""
    own = np.where(left, logits, -np.inf)
    largest = own.max(axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    powers = np.exp(own - shift[:, None])
    total = powers.sum(axis=1)
    total = np.where(total > 0, total, 1.0)
    return powers / total[:, None], np.log(total) + shift
