"""The ranking function: one differentiable attention over the candidate documents of a query, and the null slot.

Sees vectors and numbers, never text or ids. The same function serves (one query, arrays of numpy) and trains (a batch,
tensors of torch: `trainable`): it is written once over the array API. Candidates are flat arrays, so a document with
one key and a document with a thousand cost what they hold, and nothing is padded.

Letters: B queries, N candidate documents of a query, K keys at hand, P (query, document, key) pairs, M memory pairs,
D key width, V value width, H heads, R rank, E parts of the evidence. A slot is a document's place b * N + n in the
flat (B, N) grid.

Source: Bahdanau et al. 2015 (soft attention); Khattab and Zaharia 2020 (several keys a document, pooled by their best);
Jacobs et al. 1991 (gates); d2l.ai 11.1 (queries, keys and values). `docs/math.md` derives each line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from index.ranking.array_api import Array, logsumexp, namespace, number, segment_max, segment_sum, softmax
from index.ranking.normalisers import NORMALISERS, masked
from index.ranking.score_functions import FORMS, Score
from index.records import FACTS, LEXICAL, OWN_KINDS, Floats

EVIDENCE = (*(kind.label for kind in OWN_KINDS), *LEXICAL, "memory")
"""The parts of a logit, in the order of the last axis of `Attention.parts`."""
DENSE = len(OWN_KINDS)
PASSAGE = EVIDENCE.index("passage")
OF_FORM = "score."
"""Begins the names of the parameters that belong to the form of attention."""


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

    keys (K, D) unit rows; pair_query, pair_key, pair_slot, pair_kind (P,) int64: a candidate's query, key, slot and the
    kind of the key; words (B, N, len(LEXICAL)) in [0, 1]; facts (B, len(FACTS)) in [0, 1]; mask (B, N) bool, True = a
    real candidate; memory_slot (M,) int64, memory_cosine (M,) between this query and the past query, memory_weight (M,)
    signed; values (B, N, V), 0 where there is no candidate, or None where no second hop reads them.
    """

    keys: Array
    pair_query: Array
    pair_key: Array
    pair_slot: Array
    pair_kind: Array
    words: Array
    facts: Array
    mask: Array
    memory_slot: Array
    memory_cosine: Array
    memory_weight: Array
    values: Array | None = None


@dataclass(frozen=True)
class Attention:
    """What attention returns: logits and weights (B, N+1), the null slot last, and the parts (B, N, len(EVIDENCE)).

    Weights are >= 0 and sum to 1 over the candidates and the null slot. The parts of a candidate add up to its logit.
    A slot that is no candidate has logit -inf and weight 0.
    """

    logits: Array
    weights: Array
    parts: Array


class AttentionHead:
    """One attention function: keys are matched by a form of attention, pooled per kind, weighted, and normalised.

    The form never changes what is stored: training touches no key and no index. An untrained head is the hybrid search
    of its betas: every form is the cosine, every gate is neutral, and the second hop is off.
    """

    def __init__(self, config: HeadConfig, parameters: Mapping[str, Array] | None = None) -> None:
        """Take parameters by name, those of the form prefixed with `score.`; None gives the initial parameters.

        Parameters are arrays of numpy, or tensors of torch where the head is trained. Raises ValueError where the
        names or shapes are not those of such a head.
        """
        values = dict(initial_parameters(config) if parameters is None else parameters)
        if {name: tuple(value.shape) for name, value in values.items()} != parameter_shapes(config):
            raise ValueError("the parameters are not those of such a head")
        self.config = config
        self.score: Score = FORMS[config.form](
            **{name.removeprefix(OF_FORM): value for name, value in values.items() if name.startswith(OF_FORM)}
        )
        self.beta = values["beta"]
        self.log_inverse_temperature = values["log_inverse_temperature"]
        self.log_sharpness = values["log_sharpness"]
        self.log_memory_gain = values["log_memory_gain"]
        self.log_memory_sharpness = values["log_memory_sharpness"]
        self.kind_gate = values["kind_gate"]
        self.head_gate = values["head_gate"]
        self.hop = values["hop"]
        self.null = values["null"]
        self._parameters = values

    def parameters_by_name(self) -> dict[str, Array]:
        """Return the parameters by name, those of the form prefixed with `score.`."""
        return dict(self._parameters)

    def changed(self, **values: Any) -> "AttentionHead":
        """Return the head with other values of these parameters, such as `hop=0.5`."""
        arrays = {name: np.asarray(value, np.float32) for name, value in values.items()}
        return AttentionHead(self.config, self._parameters | arrays)

    @property
    def hops(self) -> bool:
        """Whether there is a second hop."""
        return number(self.hop) != 0

    def search_vectors(self, query: Array) -> Array:
        """Return (B, H, D) for queries (B, D): what the candidate index is asked with."""
        return self.score.search_vectors(query)

    def __call__(self, query: Array, candidates: Candidates) -> Attention:
        """Return the attention of queries (B, D) over their candidates, after the second hop where there is one."""
        attention = self.attend(self.dense(query, candidates), candidates)
        if not self.hops:
            return attention
        return self.attend(self.dense(self.hopped(query, attention, candidates), candidates), candidates)

    def hopped(self, query: Array, attention: Attention, candidates: Candidates) -> Array:
        """Return e' = e + g answer (B, D): the query moved towards the values that it found (Rocchio 1971).

        g is `hop`, initially 0. The answer is pooled over the candidates alone, because the null slot is calibrated
        after g was chosen.
        """
        xp = namespace(query)
        if not candidates.mask.shape[1]:
            return query
        found = xp.any(candidates.mask, axis=1, keepdims=True)
        logits = xp.where(found, attention.logits[:, :-1], 0.0)
        weights = NORMALISERS[self.config.normaliser](logits, candidates.mask | ~found)
        weights = xp.where(found, weights, 0.0)
        assert candidates.values is not None, "a second hop reads values: assemble the candidates with them"
        return query + self.hop * pool_values(weights, candidates.values)

    def attend(self, dense: Array, candidates: Candidates) -> Attention:
        """Return the attention for dense evidence (B, N, DENSE), as `dense` gives it: the part without key vectors."""
        xp = namespace(dense)
        evidence = xp.concat([dense, candidates.words, self._memory(candidates)[..., None]], axis=-1)
        weights = xp.exp(self.log_inverse_temperature) * self.kind_weights(candidates.facts)
        parts = weights[:, None, :] * evidence
        scores = masked(xp.sum(parts, axis=-1), candidates.mask)
        logits = xp.concat([scores, self._null_logit(scores)[:, None]], axis=1)
        mask = xp.concat([candidates.mask, xp.ones((len(scores), 1), dtype=xp.bool)], axis=1)
        return Attention(logits, NORMALISERS[self.config.normaliser](logits, mask), parts)

    def kind_weights(self, facts: Array) -> Array:
        """Return the weight of each part for queries with these facts: (B, E) for (B, len(FACTS)).

        A gate multiplies its weight by something between 1/e and e; at birth by 1.
        """
        xp = namespace(facts)
        return self.beta * xp.exp(xp.tanh((2 * facts - 1) @ self.kind_gate))

    def dense(self, query: Array, candidates: Candidates) -> Array:
        """Return the pooled score of each own kind (B, N, DENSE), over heads the mean that the query's gate makes.

        A document without keys of a kind is scored there by its passages: having no title is no evidence against it.
        """
        xp = namespace(query)
        scores = self.score(query, candidates.keys, candidates.pair_query, candidates.pair_key)
        batch, documents = candidates.mask.shape
        segment = candidates.pair_slot * DENSE + candidates.pair_kind
        sharpness = xp.exp(self.log_sharpness)[candidates.pair_kind, None]
        pooled, present = soft_maximum(scores, segment, batch * documents * DENSE, sharpness)
        share = softmax(query @ self.head_gate)
        grid = (batch, documents, DENSE)
        pooled = xp.sum(xp.reshape(pooled, (*grid, self.config.heads)) * share[:, None, None, :], axis=-1)
        return xp.where(xp.reshape(present, grid), pooled, pooled[..., PASSAGE : PASSAGE + 1])

    def _memory(self, candidates: Candidates) -> Array:
        """Return log(1 + c sum_i w_i exp(t_m (e . k_i - 1))) (B, N) over the query keys of each document.

        A document whose dislikes outweigh its likes near this query gets the mirrored, negative value.
        """
        xp = namespace(candidates.memory_cosine)
        near = xp.exp(xp.exp(self.log_memory_sharpness) * (candidates.memory_cosine - 1))
        batch, documents = candidates.mask.shape
        weights = (candidates.memory_weight * near)[:, None]
        total = segment_sum(weights, candidates.memory_slot, batch * documents)[:, 0]
        memory = xp.sign(total) * xp.log1p(xp.exp(self.log_memory_gain) * xp.abs(total))
        return xp.reshape(memory, (batch, documents))

    def _null_logit(self, scores: Array) -> Array:
        """Return the null slot's logit (B,): L + offset - slope L - peak p for L = logsumexp of the scores (B, N).

        p is the largest weight among the candidates alone. The weight of the null slot is then
        sigmoid(offset - slope L - peak p), as `calibration.fit_null` fits it; without candidates it is 1 in any case.
        """
        xp = namespace(scores)
        offset, slope, peak = self.null[0], self.null[1], self.null[2]
        if not scores.shape[1]:
            return xp.sum(scores, axis=1) + offset
        total = logsumexp(scores)
        found = xp.isfinite(total)
        total = xp.where(found, total, 0.0)
        largest = xp.where(found, xp.exp(xp.max(scores, axis=1) - total), 0.0)
        return offset + (1 - slope) * total - peak * largest


def initial_parameters(config: HeadConfig) -> dict[str, Floats]:
    """Return the parameters of a head at birth by name, those of its form behind `score.`: same config, same bits."""
    values = {
        "beta": config.beta,
        "log_inverse_temperature": np.log(config.inverse_temperature),
        "log_sharpness": np.full(DENSE, np.log(config.sharpness)),
        "log_memory_gain": np.log(config.memory_gain),
        "log_memory_sharpness": np.log(config.memory_sharpness),
        "kind_gate": np.zeros((len(FACTS), len(EVIDENCE))),
        "head_gate": np.zeros((config.dim, config.heads)),
        "hop": 0.0,
        "null": config.null,
    }
    of_form = FORMS[config.form].initial(config.dim, config.rank, config.heads, np.random.default_rng(config.seed))
    own = {name: np.asarray(value, np.float32) for name, value in values.items()}
    return own | {f"{OF_FORM}{name}": value for name, value in of_form.items()}


def parameter_shapes(config: HeadConfig) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of each parameter of a head by name."""
    return _parameter_shapes(replace(config, seed=0))


@lru_cache(64)
def _parameter_shapes(config: HeadConfig) -> Mapping[str, tuple[int, ...]]:
    return {name: value.shape for name, value in initial_parameters(config).items()}


def without_keys(candidates: Candidates) -> Candidates:
    """Return the candidates without key vectors, whose memory is freed: all that `AttentionHead.attend` reads."""
    xp = namespace(candidates.keys)
    none = xp.empty((0,), dtype=candidates.pair_key.dtype)  # a slice would keep alive what it is a slice of
    keys = xp.empty((0, candidates.keys.shape[1]), dtype=candidates.keys.dtype)
    return replace(candidates, keys=keys, pair_query=none, pair_key=none, pair_slot=none, pair_kind=none)


def soft_maximum(scores: Array, segment: Array, segments: int, sharpness: Array | float) -> tuple[Array, Array]:
    """Return sum_i softmax(tau s)_i s_i per segment (segments, H), 0 where it is empty, and which are not empty.

    scores (P, H); segment (P,) int64; sharpness tau, one or (P, 1). It is attention over the keys of one document:
    never above the best key, equal to it as tau grows, and unchanged when keys are repeated, so that a document gains
    nothing by its length alone. The logarithm of summed exponentials lacks that last property (decision 0002).
    """
    xp = namespace(scores)
    weight = xp.exp(sharpness * (scores - segment_max(scores, segment, segments)[segment]))
    total = segment_sum(weight, segment, segments)
    pooled = segment_sum(weight * scores, segment, segments)
    return pooled / xp.where(total == 0, 1.0, total), total[:, 0] > 0


def pool_values(weights: Array, values: Array) -> Array:
    """Return the answer sum_n alpha_n v_n (B, V) for weights (B, N) or (B, N+1), null slot last, and values (B, N, V).

    The null slot's value is zero: the less is answered here, the shorter the answer (d2l.ai 11.1, eq. 11.1.1).
    """
    return (weights[:, None, : values.shape[1]] @ values)[:, 0]
