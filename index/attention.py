"""The ranking function: one differentiable attention over the candidate documents of a query, and the null slot.

Sees vectors and numbers, never text or ids. The same function serves (one query) and trains (a batch): candidates are
flat arrays, so a document with one key and a document with a thousand cost what they hold, and nothing is padded.

Letters: B queries, N candidate documents of a query, K keys at hand, P (query, document, key) pairs, M memory pairs,
D key width, V value width, H heads, R rank, E parts of the evidence. A slot is a document's place b * N + n in the
flat (B, N) grid.

Source: Bahdanau et al. 2015 (soft attention); Khattab and Zaharia 2020 (several keys a document, pooled by their best);
Jacobs et al. 1991 (gates); d2l.ai 11.1 (queries, keys and values). `docs/math.md` derives each line.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from index.normalise import NORMALISERS
from index.records import FACTS, LEXICAL, OWN_KINDS
from index.scoring import FORMS

EVIDENCE = (*(kind.label for kind in OWN_KINDS), *LEXICAL, "memory")
"""The parts of a logit, in the order of the last axis of `Attention.parts`."""
DENSE = len(OWN_KINDS)
PASSAGE = EVIDENCE.index("passage")


@dataclass(frozen=True)
class HeadConfig:
    """The shape of a head and its birth values, which are the zero-shot hybrid search.

    The betas and the null slot were chosen once, on the train queries of six collections (docs/experiments.md).
    """

    dim: int
    """D, the width of a key."""
    rank: int = 16
    """R of the low-rank change of the query, U V^T."""
    heads: int = 1
    """H."""
    form: str = "bilinear"
    """How a query is matched with a key: a name in `scoring.FORMS`."""
    normaliser: str = "softmax"
    """What makes weights of logits: a name in `normalise.NORMALISERS`."""
    beta: tuple[float, ...] = (0.2, 0.6, 0.2, 0.2, 0.1, 0.15, 0.15, 0.12)
    """Weight of each part in EVIDENCE order, all >= 0."""
    inverse_temperature: float = 25.0
    """T: logits are T times the evidence."""
    null: tuple[float, float, float] = (3.8, 0.14, 0.5)
    """Offset, slope and peak of the null slot (`calibration.NullFit`)."""
    sharpness: float = 20.0
    """tau of the soft maximum over a document's keys of one kind."""
    memory_gain: float = 10.0
    """c: how fast repeated confirmations add up."""
    memory_sharpness: float = 12.0
    """t_m: how fast memory fades with the distance between the past query and this one."""
    seed: int = 0
    """Of the random directions in which a form learns; they only start to matter once it leaves its birth."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of B queries, as flat arrays.

    keys (K, D) unit rows; pair_query, pair_key, pair_slot, pair_kind (P,) int64: the key of a candidate, the query that
    it is a candidate of, its slot and its kind; words (B, N, len(LEXICAL)) in [0, 1]; facts (B, len(FACTS)) in [0, 1];
    mask (B, N) bool, True = a real candidate; memory_slot (M,) int64, memory_cosine (M,) the cosine of this query and
    the past one, memory_weight (M,) signed.
    """

    keys: Tensor
    pair_query: Tensor
    pair_key: Tensor
    pair_slot: Tensor
    pair_kind: Tensor
    words: Tensor
    facts: Tensor
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
    """Keys are matched by a form of attention, pooled per kind, weighed per query; one softmax over documents and null.

    Whatever the form, what is stored stays as it was encoded: training changes no key and no index. At birth every
    form is the cosine, all gates stand alike, the second hop is off: the head is the hybrid search of its betas.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(config.seed)
        self.score = FORMS[config.form](config.dim, config.rank, config.heads, generator)
        self.beta = nn.Parameter(torch.tensor(config.beta))
        self.log_inverse_temperature = nn.Parameter(torch.tensor(config.inverse_temperature).log())
        self.log_sharpness = nn.Parameter(torch.full((DENSE,), config.sharpness).log())
        self.log_memory_gain = nn.Parameter(torch.tensor(config.memory_gain).log())
        self.log_memory_sharpness = nn.Parameter(torch.tensor(config.memory_sharpness).log())
        self.kind_gate = nn.Parameter(torch.zeros(len(FACTS), len(EVIDENCE)))
        self.head_gate = nn.Parameter(torch.zeros(config.dim, config.heads))
        self.hop = nn.Parameter(torch.zeros(()))
        self.register_buffer("null", torch.tensor(config.null))
        self.null: Tensor

    @property
    def hops(self) -> bool:
        """Whether there is a second hop."""
        return float(self.hop.detach()) != 0

    def search_vectors(self, query: Tensor) -> Tensor:
        """Return (B, H, D) for queries (B, D): what the candidate index is asked with."""
        return self.score.search_vectors(query)

    def forward(self, query: Tensor, candidates: Candidates) -> Attention:
        """Return the attention of queries (B, D) over their candidates, after the second hop where there is one."""
        attention = self.attend(self.dense(query, candidates), candidates)
        if not self.hops and not self.hop.requires_grad:
            return attention
        return self.attend(self.dense(self.hopped(query, attention, candidates), candidates), candidates)

    def hopped(self, query: Tensor, attention: Attention, candidates: Candidates) -> Tensor:
        """Return e' = e + g answer (B, D): the query drawn towards what it found (Rocchio 1971), g = 0 at birth.

        The answer is that of the candidates alone: how much weight the null slot has is settled after the hop is.
        """
        found = candidates.mask.any(1, keepdim=True)
        weights = NORMALISERS[self.config.normaliser](attention.logits[:, :-1], candidates.mask | ~found)
        weights = torch.where(found, weights, 0.0)
        return query + self.hop * pool_values(weights, document_values(candidates))

    def attend(self, dense: Tensor, candidates: Candidates) -> Attention:
        """Return the attention for dense evidence (B, N, DENSE), as `dense` gives it: the part without key vectors."""
        evidence = torch.cat([dense, candidates.words, self._memory(candidates)[..., None]], dim=-1)
        weights = self.log_inverse_temperature.exp() * self.kind_weights(candidates.facts)
        parts = weights[:, None, :] * evidence
        scores = parts.sum(-1).masked_fill(~candidates.mask, -torch.inf)
        logits = torch.cat([scores, self._null_logit(scores)[:, None]], dim=1)
        mask = torch.cat([candidates.mask, candidates.mask.new_ones(len(scores), 1)], dim=1)
        return Attention(logits, NORMALISERS[self.config.normaliser](logits, mask), parts)

    def kind_weights(self, facts: Tensor) -> Tensor:
        """Return the weight of each part for queries with these facts: (B, E) for (B, len(FACTS)).

        A gate multiplies its weight by something between 1/e and e; at birth by 1.
        """
        return self.beta * torch.exp(torch.tanh((2 * facts - 1) @ self.kind_gate))

    def dense(self, query: Tensor, candidates: Candidates) -> Tensor:
        """Return the pooled score of each own kind (B, N, DENSE), over heads the mean that the query's gate makes.

        A document without keys of a kind is scored there by its passages: having no title is no evidence against it.
        """
        scores = self.score(query, candidates.keys, candidates.pair_query, candidates.pair_key)
        batch, documents = candidates.mask.shape
        segment = candidates.pair_slot * DENSE + candidates.pair_kind
        sharpness = self.log_sharpness.exp()[candidates.pair_kind, None]
        pooled, present = soft_maximum(scores, segment, batch * documents * DENSE, sharpness)
        share = torch.softmax(query @ self.head_gate, dim=-1)
        pooled = (pooled.view(batch, documents, DENSE, self.config.heads) * share[:, None, None, :]).sum(-1)
        present = present.view(batch, documents, DENSE)
        return torch.where(present, pooled, pooled[..., PASSAGE : PASSAGE + 1])

    def _memory(self, candidates: Candidates) -> Tensor:
        """Return log(1 + c sum_i w_i exp(t_m (e . k_i - 1))) (B, N) over the query keys of each document.

        A document whose dislikes outweigh its likes near this query gets the mirrored, negative value.
        """
        near = torch.exp(self.log_memory_sharpness.exp() * (candidates.memory_cosine - 1))
        total = near.new_zeros(candidates.mask.numel())
        total = total.index_add(0, candidates.memory_slot, candidates.memory_weight * near)
        memory = total.sign() * torch.log1p(self.log_memory_gain.exp() * total.abs())
        return memory.view_as(candidates.mask)

    def _null_logit(self, scores: Tensor) -> Tensor:
        """Return the null slot's logit (B,): L + offset - slope L - peak p for L = logsumexp of the scores (B, N).

        p is the largest weight among the candidates alone. The weight of the null slot is then
        sigmoid(offset - slope L - peak p), as `calibration.fit_null` fits it; without candidates it is 1 in any case.
        """
        offset, slope, peak = self.null.unbind()
        if not scores.shape[1]:
            return offset.expand(len(scores))
        total: Tensor = torch.logsumexp(scores, dim=1)
        found = torch.isfinite(total)
        total = torch.where(found, total, 0.0)
        largest = torch.where(found, torch.exp(scores.amax(1) - total), 0.0)
        return offset + (1 - slope) * total - peak * largest


def without_keys(candidates: Candidates) -> Candidates:
    """Return the candidates without their key vectors, which are let go: all that `AttentionHead.attend` reads."""
    none = candidates.pair_key.new_empty(0)  # a slice would keep alive what it is a slice of
    keys = candidates.keys.new_empty((0, candidates.keys.shape[1]))
    return replace(candidates, keys=keys, pair_query=none, pair_key=none, pair_slot=none, pair_kind=none)


def document_values(candidates: Candidates) -> Tensor:
    """Return the value of each candidate (B, N, D): the unit mean of its passage keys, 0 where it has none."""
    batch, documents = candidates.mask.shape
    passage = candidates.pair_kind == PASSAGE
    total = candidates.keys.new_zeros(batch * documents, candidates.keys.shape[1])
    total = total.index_add(0, candidates.pair_slot[passage], candidates.keys[candidates.pair_key[passage]])
    return torch.nn.functional.normalize(total, dim=1).view(batch, documents, total.shape[1])


def soft_maximum(scores: Tensor, segment: Tensor, segments: int, sharpness: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return sum_i softmax(tau s)_i s_i per segment (segments, H), 0 where it is empty, and which are not empty.

    scores (P, H); segment (P,) int64; sharpness tau, one or (P, 1). It is attention over the keys of one document:
    never above the best key, equal to it as tau grows, and unchanged when keys are repeated, so that a document gains
    nothing by its length alone. The logarithm of summed exponentials lacks that last property (decision 0002).
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
    """Return the answer sum_n alpha_n v_n (B, V) for weights (B, N) or (B, N+1), null slot last, and values (B, N, V).

    The null slot's value is zero: the less is answered here, the shorter the answer (d2l.ai 11.1, eq. 11.1.1).
    """
    return torch.einsum("bn,bnv->bv", weights[:, : values.shape[1]], values)
