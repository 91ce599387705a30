"""The loss of REINFORCE on explored lists (Williams 1992): clicks make the choices above them more likely.

The policy is the Plackett-Luce sample of the head (`index.ranking.exploration`). A click depends on the documents down
to its position, so its weight is the importance ratio of this prefix, clipped.

Letters: B queries, N candidate documents, S lists, P positions.
"""

import torch
from torch import Tensor

from index.learning.slates import Slates

MAX_RATIO = 10.0
"""The importance ratio of a prefix is at most this: less variance for some bias (Ionides 2008)."""

NEVER = -1e30
"""The logit of a document that cannot be chosen: its probability is 0 in float32."""


def reinforce_loss(logits: Tensor, slates: Slates, max_ratio: float = MAX_RATIO) -> Tensor:
    """Return -1/S sum_s sum_p A_p log pi(a_p | a_1 .. a_{p-1}), a scalar; A_p = sum_{k >= p} min(w_k, max) r_k.

    logits (B, N): of the documents, -inf in empty slots. r are the rewards above the baseline, w_k the ratio of the
    probabilities of the prefix under the head and as logged; no gradient flows through it. Its gradient is an estimate
    of the gradient of minus the expected reward, unbiased where no ratio is clipped.
    """
    logs = choice_logs(logits[slates.query], slates.places, slates.free)
    with torch.no_grad():
        ratios = torch.exp(logs.cumsum(1) - slates.logs).clamp(max=max_ratio)
        to_come = (ratios * slates.rewards).flip(1).cumsum(1).flip(1)
    loss: Tensor = -(to_come * logs).sum(1).mean()
    return loss


def choice_logs(logits: Tensor, places: Tensor, free: Tensor) -> Tensor:
    """Return (S, P) log pi(a_p | a_1 .. a_{p-1}), 0 where no document was chosen.

    logits (S, N); places (S, P): of the shown documents; free (S, P) bool. Documents that keep their places are not
    among the documents to choose from. A chosen document must have a place. The documents that are left at a position
    are those below it on the list and those that are not on the list.
    """
    rows = torch.arange(len(logits))[:, None].expand_as(places)[places >= 0]
    in_list = torch.zeros(logits.shape, dtype=torch.bool)
    in_list[rows, places[places >= 0]] = True
    finite = logits.clamp(min=NEVER)  # -inf would have no gradient in the running sum
    rest = torch.where(in_list, NEVER, finite).logsumexp(dim=1, keepdim=True)
    chosen = torch.where(free, finite.gather(1, places.clamp(min=0)), NEVER)
    left = torch.cat([rest, chosen.flip(1)], dim=1).logcumsumexp(dim=1)[:, 1:].flip(1)
    return torch.where(free, chosen - left, 0.0)
