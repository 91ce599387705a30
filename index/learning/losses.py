"""What training minimises: a listwise softmax over the candidates of a query, aware of where they were shown.

Sources: Cao et al. 2007 (listwise softmax); Joachims et al. 2017 and Agarwal et al. 2019 (propensities); Radlinski and
Joachims 2005 (a whole session as evidence).
"""

import torch
from torch import Tensor


def listwise_loss(logits: Tensor, gains: Tensor, log_propensity: Tensor | None = None) -> Tensor:
    """Return the mean over queries of -sum_n y_n log alpha_n, a scalar.

    logits (B, N) of the documents, -inf where there is no candidate; gains (B, N) >= 0, y is gains scaled to sum to 1
    per query; a query without gain is left out. log_propensity (B, N), the logarithm of the chance that the place
    where a document was shown was looked at, is added to the logits of implicit feedback: what its place explains need
    not be explained by relevance. None means that all were looked at. The null slot is calibrated apart (`train`).
    """
    if log_propensity is not None:
        logits = logits + log_propensity
    total = gains.sum(1)
    counted = total > 0
    if not bool(counted.any()):
        return logits.new_zeros(())
    log_weights = torch.log_softmax(logits[counted], dim=1)
    target = gains[counted] / total[counted, None]
    return -torch.where(target > 0, target * log_weights, 0.0).sum(1).mean()


def session_loss(logits: Tensor, solved: Tensor) -> Tensor:
    """Return the mean over queries of -log sum_n alpha_n P(solved | n), a scalar: credit without a document.

    logits (B, N) of the documents, -inf where there is no candidate; solved (B, N) in [0, 1] the chance that a session
    was solved if document n was what it looked for (`examples.Solved`); a row of zeros has no session and is left out.
    alpha is the softmax of the logits as they are: where a document stood is in P(solved | n) already.
    """
    counted = (solved > 0).any(1)
    if not bool(counted.any()):
        return logits.new_zeros(())
    log_weights = torch.log_softmax(logits[counted], dim=1)
    chance = solved[counted]
    joint = torch.where(chance > 0, log_weights + chance.clamp_min(torch.finfo(chance.dtype).tiny).log(), -torch.inf)
    return -torch.logsumexp(joint, dim=1).mean()
