"""The ranking function: one differentiable attention over the candidate documents of a query, and the null slot.

Sees vectors and numbers, never text or ids. The same function serves (one query) and trains (a batch): candidates are
flat arrays, so a document with one key and a document with a thousand cost what they hold, and nothing is padded.

Letters: B queries, N candidate documents of a query, K keys at hand, P (query, document, key) pairs, M memory pairs,
D key width, V value width, H heads, R rank. A slot is a document's place b * N + n in the flat (B, N) grid.

Source: Bahdanau et al. 2015 (soft attention); Khattab and Zaharia 2020 (several keys a document, pooled by their best);
d2l.ai 11.1 (queries, keys and values). `docs/math.md` derives each line.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from index.records import OWN_KINDS

EVIDENCE = ("title", "passage", "sentence", "words", "memory")
"""The parts of a logit, in the order of the last axis of `Attention.parts`."""
DENSE = len(OWN_KINDS)
PASSAGE = EVIDENCE.index("passage")


@dataclass(frozen=True)
class HeadConfig:
    """The shape of a head and its birth values, which are the zero-shot hybrid search.

    The betas were chosen once, on the train queries of six collections (docs/experiments.md).
    """

    dim: int
    """D, the width of a key."""
    rank: int = 16
    """R of the low-rank change of the query, U V^T."""
    heads: int = 1
    """H."""
    beta: tuple[float, ...] = (0.2, 0.8, 0.0, 0.4, 0.15)
    """Weight of each part in EVIDENCE order, all >= 0; sentence keys count only where training proves them."""
    inverse_temperature: float = 20.0
    """T: logits are T times the evidence."""
    null_evidence: float = 0.8
    """b0: the evidence that the null slot is born with; what scores below it is less likely than "nothing here"."""
    sharpness: float = 20.0
    """tau of the soft maximum over a document's keys of one kind."""
    memory_gain: float = 10.0
    """c: how fast repeated confirmations add up."""
    memory_sharpness: float = 12.0
    """t_m: how fast memory fades with the distance between the past query and this one."""
    seed: int = 0
    """Of V, whose random directions only start to matter once U leaves zero."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of B queries, as flat arrays.

    keys (K, D) unit rows; pair_query, pair_key, pair_slot, pair_kind (P,) int64: the key of a candidate, the query that
    it is a candidate of, its slot and its kind; words (B, N) in [0, 1]; mask (B, N) bool, True = a real candidate;
    memory_slot (M,) int64, memory_cosine (M,) the cosine of this query and the past one, memory_weight (M,) signed.
    """

    keys: Tensor
    pair_query: Tensor
    pair_key: Tensor
    pair_slot: Tensor
    pair_kind: Tensor
    words: Tensor
    mask: Tensor
    memory_slot: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    memory_cosine: Tensor = field(default_factory=lambda: torch.zeros(0))
    memory_weight: Tensor = field(default_factory=lambda: torch.zeros(0))


@dataclass(frozen=True)
class Attention:
    """What attention returns: logits and weights (B, N+1), the null slot last, and the parts (B, N, len(EVIDENCE)).

    Weights are >= 0 and sum to 1 over the candidates and the null slot. The parts of a candidate add up to its logit.
    A slot that is no candidate has logit -inf and weight 0.
    """

    logits: Tensor
    weights: Tensor
    parts: Tensor


class AttentionHead(nn.Module):
    """q_h = e + U_h V_h^T e, evidence per kind pooled by a soft maximum, one softmax over documents and the null slot.

    W_k^T W_q is absorbed into the query side, so keys stay as they were encoded: training changes no key and no index.
    At birth U = 0, so q_h = e and the head is the zero-shot hybrid search of `HeadConfig.beta`.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(config.seed)
        shape = (config.heads, config.dim, config.rank)
        self.up = nn.Parameter(torch.zeros(shape))
        self.down = nn.Parameter(torch.randn(shape, generator=generator) / config.dim**0.5)
        self.beta = nn.Parameter(torch.tensor(config.beta))
        self.log_inverse_temperature = nn.Parameter(torch.tensor(config.inverse_temperature).log())
        self.null_evidence = nn.Parameter(torch.tensor(config.null_evidence))
        self.log_memory_gain = nn.Parameter(torch.tensor(config.memory_gain).log())
        self.log_memory_sharpness = nn.Parameter(torch.tensor(config.memory_sharpness).log())

    def project(self, query: Tensor) -> Tensor:
        """Return q_h (B, H, D) for queries e (B, D): what keys are matched against. Not unit: its length is learned."""
        low = torch.einsum("bd,hdr->bhr", query, self.down)
        return query[:, None, :] + torch.einsum("bhr,hdr->bhd", low, self.up)

    def forward(self, query: Tensor, candidates: Candidates) -> Attention:
        """Return the attention of queries (B, D) over their candidates."""
        return self.attend(self.dense(query, candidates), candidates)

    def attend(self, dense: Tensor, candidates: Candidates) -> Attention:
        """Return the attention for dense evidence (B, N, DENSE), as `dense` gives it: the part without key vectors."""
        rest = torch.stack([candidates.words, self._memory(candidates)], dim=-1)
        evidence = torch.cat([dense, rest], dim=-1)
        temperature = self.log_inverse_temperature.exp()
        parts = temperature * self.beta * evidence
        scores = parts.sum(-1).masked_fill(~candidates.mask, -torch.inf)
        null = (temperature * self.null_evidence).expand(len(scores), 1)
        logits = torch.cat([scores, null], dim=1)
        return Attention(logits, torch.softmax(logits, dim=1), parts)

    def dense(self, query: Tensor, candidates: Candidates) -> Tensor:
        """Return the pooled score of each own kind (B, N, DENSE), mean over heads.

        A document without keys of a kind is scored there by its passages: having no title is no evidence against it.
        """
        projected = self.project(query)
        table = projected.flatten(0, 1) @ candidates.keys.T
        rows = candidates.pair_query[:, None] * self.config.heads + torch.arange(self.config.heads)
        scores = table[rows, candidates.pair_key[:, None]]
        batch, documents = candidates.words.shape
        segment = candidates.pair_slot * DENSE + candidates.pair_kind
        pooled, present = soft_maximum(scores, segment, batch * documents * DENSE, self.config.sharpness)
        pooled = pooled.mean(-1).view(batch, documents, DENSE)
        present = present.view(batch, documents, DENSE)
        return torch.where(present, pooled, pooled[..., PASSAGE : PASSAGE + 1])

    def _memory(self, candidates: Candidates) -> Tensor:
        """Return log(1 + c sum_i w_i exp(t_m (e . k_i - 1))) (B, N) over the query keys of each document.

        A document whose dislikes outweigh its likes near this query gets the mirrored, negative value.
        """
        near = torch.exp(self.log_memory_sharpness.exp() * (candidates.memory_cosine - 1))
        total = candidates.words.new_zeros(candidates.words.numel())
        total = total.index_add(0, candidates.memory_slot, candidates.memory_weight * near)
        memory = total.sign() * torch.log1p(self.log_memory_gain.exp() * total.abs())
        return memory.view_as(candidates.words)


def soft_maximum(scores: Tensor, segment: Tensor, segments: int, sharpness: float) -> tuple[Tensor, Tensor]:
    """Return sum_i softmax(tau s)_i s_i per segment (segments, H), 0 where it is empty, and which are not empty.

    scores (P, H); segment (P,) int64. It is attention over the keys of one document: never above the best key, equal to
    it as tau grows, and unchanged when keys are repeated, so that a document gains nothing by its length alone. The
    logarithm of summed exponentials lacks that last property (decision 0002).
    """
    heads = scores.shape[1]
    index = segment[:, None].expand(-1, heads)
    top = scores.new_full((segments, heads), -torch.inf)
    top = top.scatter_reduce(0, index, scores.detach(), "amax")
    weight = torch.exp(sharpness * (scores - top[segment]))
    total = scores.new_zeros(segments, heads).index_add(0, segment, weight)
    pooled = scores.new_zeros(segments, heads).index_add(0, segment, weight * scores)
    present = total[:, 0] > 0
    return pooled / total.masked_fill(total == 0, 1.0), present


def pool_values(weights: Tensor, values: Tensor) -> Tensor:
    """Return the answer sum_n alpha_n v_n (B, V) for weights (B, N+1), null slot last, and values (B, N, V).

    The null slot's value is zero: the less is answered here, the shorter the answer (d2l.ai 11.1, eq. 11.1.1).
    """
    return torch.einsum("bn,bnv->bv", weights[:, :-1], values)
