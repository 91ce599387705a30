"""The boost of documents that feedback on the very words of a query confirms.

Training never sees such feedback, because an example leaves out its own: the weight that it learns for memory, and its
trees, say what feedback on other queries is worth, and in some collections that is nothing. So the past queries with
the same words count apart, after the trees, and memory has at least its initial share of all weights: every model
obeys what it was told.
"""

import numpy as np

from index.ranking.array_api import segment_sum
from index.ranking.attention import EVIDENCE, AttentionHead, Candidates
from index.ranking.past_queries import compressed, confirmed
from index.records import Floats

MEMORY = EVIDENCE.index("memory")


def same_words_boost(head: AttentionHead, candidates: Candidates) -> Floats | None:
    """Return what the past queries with the same words add to the logits (B, N), None if there are none.

    With m the sum over the other past queries and s the sum over these, it is T beta (log(1 + c (m + s)) - log(1 + c
    m)): once with the values of the head, once with the initial c and t_m and a beta that has its initial ratio to the
    sum of the other weights; the larger of both counts. Both have the sign of s, so a confirmation never lowers its
    document, and a dislike never raises it.
    """
    if candidates.same_slot is None or candidates.same_weight is None:
        return None
    config, shape = head.config, candidates.mask.shape
    past = (candidates.memory_cosine, candidates.memory_weight, candidates.memory_slot, candidates.mask.size)
    same = segment_sum(candidates.same_weight[:, None], candidates.same_slot, candidates.mask.size)[:, 0]

    def added(log_sharpness: Floats, log_gain: Floats) -> Floats:
        others = confirmed(*past, log_sharpness)
        difference = compressed(others + same, log_gain) - compressed(others, log_gain)
        reshaped: Floats = (np.exp(head.log_inverse_temperature) * difference).reshape(shape)
        return reshaped

    learned = head.kind_weights(candidates.facts)[:, MEMORY, None] * added(
        head.log_memory_sharpness, head.log_memory_gain
    )
    initial = _initial_share(head) * added(
        np.log(np.float32(config.memory_sharpness)), np.log(np.float32(config.memory_gain))
    )
    boost: Floats = np.where(np.abs(learned) >= np.abs(initial), learned, initial).astype(np.float32)
    return boost


def _initial_share(head: AttentionHead) -> np.float32:
    """Return the beta of memory that has its initial ratio to the sum of the other weights."""
    before = np.asarray(head.config.beta, np.float32)
    others, others_before = np.delete(head.beta, MEMORY).sum(), np.delete(before, MEMORY).sum()
    share: np.float32 = before[MEMORY] * (others / others_before if others_before else np.float32(1))
    return share
