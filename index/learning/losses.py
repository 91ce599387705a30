"""The losses of training: a listwise softmax loss with propensities, and a loss for solved sessions.

Sources: Cao et al. 2007 (listwise softmax); Joachims et al. 2017 and Agarwal et al. 2019 (propensities); Radlinski and
Joachims 2005 (whole sessions as evidence).
"""

import torch
from torch import Tensor


def listwise_loss(
    logits: Tensor, gains: Tensor, log_propensity: Tensor | None = None, confidence: Tensor | None = None
) -> Tensor:
    """Return the weighted mean over queries of -sum_n y_n log alpha_n, a scalar.

    logits (B, N): of the documents, -inf in empty slots. gains (B, N) >= 0: y is gains scaled to sum to 1 per query;
    queries without gain are left out. log_propensity (B, N): logarithm of the examination probability of the positions
    where a document was shown. It is added to the logits of implicit feedback, so that relevance need not explain the
    effect of position. None means that all documents were examined. confidence (B,) > 0: the weights of the queries;
    None means equal weights. The null slot is calibrated separately (`null_slot.calibrate_null`).
    """
    if log_propensity is not None:
        logits = logits + log_propensity
    total = gains.sum(1)
    counted = total > 0
    if not bool(counted.any()):
        return logits.new_zeros(())
    log_weights = torch.log_softmax(logits[counted], dim=1)
    target = gains[counted] / total[counted, None]
    losses = -torch.where(target > 0, target * log_weights, 0.0).sum(1)
    if confidence is None:
        return losses.mean()
    weight = confidence[counted]
    return (weight * losses).sum() / weight.sum()


def session_loss(logits: Tensor, solved: Tensor) -> Tensor:
    """Return the mean over queries of -log sum_n alpha_n P(solved | n), a scalar, for sessions that name no document.

    logits (B, N): of the documents, -inf in empty slots. solved (B, N) in [0, 1]: P(solved | n), the probability that a
    session was solved if it searched for document n (`examples.Solved`); rows of zeros have no session and are left
    out. alpha is the softmax of the logits without propensities, because P(solved | n) already contains the effect of
    position.
    """
    counted = (solved > 0).any(1)
    if not bool(counted.any()):
        return logits.new_zeros(())
    log_weights = torch.log_softmax(logits[counted], dim=1)
    chance = solved[counted]
    joint = torch.where(chance > 0, log_weights + chance.clamp_min(torch.finfo(chance.dtype).tiny).log(), -torch.inf)
    return -torch.logsumexp(joint, dim=1).mean()
