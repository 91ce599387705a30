"""The ranking function: one differentiable attention over the candidate documents of a query, and the null slot.

Sees vectors and numbers, never text or ids. The same function serves a search (one query, numpy arrays) and training (a
batch, torch tensors: `learning.torch_head`): it is written once over the array API. Candidates are flat arrays without
padding: the cost of a document is proportional to its number of keys.

Letters: B queries, N candidate documents of a query, K keys in the batch, P (query, document, key) pairs, M memory
pairs, D key width, V value width, H heads, R rank, E parts of the evidence. The slot of document n of query b is its
index b * N + n in the flat (B, N) grid.

Source: Bahdanau et al. 2015 (soft attention); Khattab and Zaharia 2020 (several keys a document, pooled by their best);
Jacobs et al. 1991 (gates); d2l.ai 11.1 (queries, keys and values). `docs/math.md` derives each line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from index.generation.document_fields import FieldPairs
from index.ranking.array_api import Array, namespace, number, softmax
from index.ranking.context import drawn
from index.ranking.normalisers import NORMALISERS, masked, soft_maximum
from index.ranking.null_logit import null_logit
from index.ranking.past_queries import compressed, confirmed
from index.ranking.priors import PREFIX, Priors, no_priors
from index.ranking.score_functions import FORMS, Score
from index.ranking.second_hop import DOWN, UP, answer_without_null, initial_projection, moved
from index.ranking.trees import SHAPES, Trees, no_trees, tree_features
from index.ranking.word_balance import word_factor
from index.records import FACTS, LEXICAL, OWN_KINDS, Floats

EVIDENCE = (*(kind.label for kind in OWN_KINDS), *LEXICAL, "memory")
"""The parts of a logit with a learned weight."""
PARTS = (*EVIDENCE, "trees", "prior")
"""The parts of a logit, in the order of the last axis of `Attention.parts`. A head without priors lacks the last, a
head without trees and priors both."""
DENSE = len(OWN_KINDS)
PASSAGE = EVIDENCE.index("passage")
COVERAGE = LEXICAL.index("coverage")
LENGTH = FACTS.index("length")
SCORE_PREFIX = "score."
"""Prefix of the names of the parameters that belong to the form of attention."""


@dataclass(frozen=True)
class HeadConfig:
    """The shape of a head and its initial values, which give the zero-shot hybrid search.

    The defaults of beta and null were chosen on the train queries of six collections (docs/experiments.md).
    """

    dim: int
    """D, the width of a key."""
    rank: int = 16
    """R, the rank of the query projection's change U V^T."""
    heads: int = 1
    """H."""
    form: str = "bilinear"
    """The score function of a query and a key: a name in `score_functions.FORMS`."""
    normaliser: str = "softmax"
    """The function from logits to weights: a name in `normalisers.NORMALISERS`."""
    beta: tuple[float, ...] = (0.2, 0.6, 0.2, 0.2, 0.1, 0.15, 0.15, 0.2, 0.2, 0.12)
    """Weight of each part in EVIDENCE order, all >= 0."""
    inverse_temperature: float = 25.0
    """T: logits are T times the evidence."""
    null: tuple[float, float, float] = (3.8, 0.14, 0.5)
    """Offset, slope and peak of the null slot (`null_calibration.NullFit`)."""
    null_calibrated: bool = False
    """Whether `null` was fitted to the collection. Model files of earlier releases lack this field."""
    balance: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Constant, best passage, best coverage and length: the coefficients of the balance of words and meaning
    (`AttentionHead.word_factor`). Zeros: the weights of the word parts are the same for every query."""
    sharpness: float = 20.0
    """tau of the soft maximum over a document's keys of one kind."""
    memory_gain: float = 10.0
    """c: how fast repeated confirmations add up."""
    memory_sharpness: float = 12.0
    """t_m: how fast memory fades with the distance between the past query and this query."""
    seed: int = 0
    """Seed of the random directions in which a form learns. An untrained head does not depend on it."""
    trees: int = 0
    """T, the number of regression trees over the evidence (`index.ranking.trees`)."""
    priors: int = 0
    """P, the number of documents with a prior (`index.ranking.priors`)."""
    fields: tuple[int, int] = (0, 0)
    """Categories and fields with numbers that have a prior (`index.ranking.field_priors`)."""
    value_rank: int = 0
    """Rank of the value projection of the second hop (`index.ranking.second_hop`); 0: W_v = 1."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of B queries, as flat arrays.

    keys (K, D): unit rows. pair_query, pair_key, pair_slot, pair_kind (P,) int64: query, key and slot of each pair, and
    the kind of the key. words (B, N, len(LEXICAL)) and facts (B, len(FACTS)): in [0, 1]. mask (B, N) bool: True for a
    candidate. memory_slot (M,) int64; memory_cosine (M,): cosine of the query and the past query; memory_weight (M,):
    signed. values (B, N, V): 0 in empty slots; None if there is no second hop. trust (B,): factor of the dense evidence
    of a query whose text is not finished; None: 1. signals (B, N, len(SIGNALS)): what trees read besides the evidence;
    None for training and for a head without trees. same_slot, same_weight (S,): the past queries with the words of the
    query itself, which `same_words` reads; None: there are none, as in training. id_order (B, N) bytes: the ids of the
    documents (`index.generation.columns.id_order`), which priors read, as they read the metadata of the slots, fields;
    None where tensors are trained.
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
    trust: Array | None = None
    signals: Array | None = None
    same_slot: Array | None = None
    same_weight: Array | None = None
    id_order: Array | None = None
    fields: FieldPairs | None = None


@dataclass(frozen=True)
class Attention:
    """The result of attention: logits and weights (B, N+1), the null slot last, and the parts (B, N, E), as in PARTS.

    Weights are >= 0 and sum to 1 over the candidates and the null slot. The parts of a candidate add up to its logit.
    An empty slot has logit -inf and weight 0. evidence (B, N, len(EVIDENCE)): the parts without their weights.
    """

    logits: Array
    weights: Array
    parts: Array
    evidence: Array


class AttentionHead:
    """One attention function: key scores by a form of attention, pooled per kind, weighted, and normalised.

    Training changes no stored key and no index. An untrained head is the hybrid search of its betas: every form is the
    cosine, every gate is neutral, and the second hop is off.
    """

    def __init__(self, config: HeadConfig, parameters: Mapping[str, Array] | None = None) -> None:
        """Take parameters by name, with the prefix `score.` for those of the form; None gives the initial parameters.

        Parameters are numpy arrays for searching and torch tensors for training. Raises ValueError if a name or a shape
        does not fit the configuration.
        """
        values = dict(initial_parameters(config) if parameters is None else parameters)
        if {name: tuple(value.shape) for name, value in values.items()} != parameter_shapes(config):
            raise ValueError("the names or shapes of the parameters do not fit the configuration of the head")
        self.config = config
        scored = [name for name in values if name.startswith(SCORE_PREFIX)]
        self.score: Score = FORMS[config.form](**{name.removeprefix(SCORE_PREFIX): values[name] for name in scored})
        self.beta = values["beta"]
        self.log_inverse_temperature = values["log_inverse_temperature"]
        self.log_sharpness = values["log_sharpness"]
        self.log_memory_gain = values["log_memory_gain"]
        self.log_memory_sharpness = values["log_memory_sharpness"]
        self.kind_gate = values["kind_gate"]
        self.head_gate = values["head_gate"]
        self.hop = values["hop"]
        self.value_projection = (values.get(UP), values.get(DOWN))
        self.context = values["context"]
        self.null = values["null"]
        self.balance = values["balance"]
        self.trees = Trees(*(np.asarray(values[f"trees.{name}"]) for name in SHAPES)) if config.trees else no_trees()
        self.priors = Priors.of_parameters(values)
        self._parameters = values

    @property
    def is_null_calibrated(self) -> bool:
        """Whether the null slot was fitted to the collection; version 0 has the same null slot for every collection.

        Models of earlier releases have no `null_calibrated`: a null slot that is not the initial one was fitted.
        """
        moved = not np.array_equal(np.asarray(self.null, np.float32), np.asarray(self.config.null, np.float32))
        return self.config.null_calibrated or moved

    def parameters_by_name(self) -> dict[str, Array]:
        """Return the parameters by name, with the prefix `score.` for those of the form."""
        return dict(self._parameters)

    def changed(self, **values: Any) -> "AttentionHead":
        """Return a head with new values of these parameters, for example `hop=0.5`."""
        arrays = {name: np.asarray(value, np.float32) for name, value in values.items()}
        return AttentionHead(self.config, self._parameters | arrays)

    def grown(self, trees: Trees) -> "AttentionHead":
        """Return the head with these trees instead of its own."""
        others = {name: value for name, value in self._parameters.items() if not name.startswith("trees.")}
        parameters = others | (trees.parameters() if len(trees) else {})
        return AttentionHead(replace(self.config, trees=len(trees)), parameters)

    def preferring(self, priors: Priors) -> "AttentionHead":
        """Return the head with these priors instead of its own."""
        others = {name: value for name, value in self._parameters.items() if not name.startswith(PREFIX)}
        config = replace(self.config, priors=len(priors), fields=priors.fields.shape)
        return AttentionHead(config, others | priors.parameters())

    def with_null(self, null: tuple[float, float, float], calibrated: bool = True) -> "AttentionHead":
        """Return a head with this offset, slope and peak of the null slot, as parameter and in its configuration.

        calibrated: whether they were fitted to the collection. The ranking is the same.
        """
        config = replace(self.config, null=null, null_calibrated=calibrated)
        return AttentionHead(config, self._parameters | {"null": np.asarray(null, np.float32)})

    @property
    def balances(self) -> bool:
        """Whether the weights of the word parts depend on the query."""
        return any(number(coefficient) != 0 for coefficient in self.balance)

    @property
    def hops(self) -> bool:
        """Whether there is a second hop. A g that training changes begins at 0, and needs its gradient there."""
        return number(self.hop) != 0 or getattr(self.hop, "requires_grad", False)

    def in_context(self, query: Array, context: Array) -> Array:
        """Return e' (B, D): the queries drawn towards the values (C, V) of the documents of their session."""
        return drawn(query, context, self.context, namespace(query).exp(self.log_sharpness[PASSAGE]))

    def search_vectors(self, query: Array) -> Array:
        """Return (B, H, D) for queries (B, D): the vectors that the candidate index is searched with."""
        return self.score.search_vectors(query)

    def __call__(self, query: Array, candidates: Candidates) -> Attention:
        """Return the attention of queries (B, D) over their candidates: second hop, trees and priors if they are on."""
        attention = self.attend(self.dense_after_hop(query, candidates), candidates)
        return self.with_priors(self.with_trees(attention, candidates), candidates)

    def dense_after_hop(self, query: Array, candidates: Candidates) -> Array:
        """Return the dense evidence (B, N, DENSE) of queries (B, D), moved by the second hop if it is on."""
        dense = self.dense(query, candidates)
        if not self.hops:
            return dense
        return self.dense(self.hopped(query, self.candidate_logits(dense, candidates), candidates), candidates)

    def hopped(self, query: Array, logits: Array, candidates: Candidates) -> Array:
        """Return e' = e + g W_v answer (B, D) for logits (B, N): queries moved by values (`second_hop`)."""
        if not candidates.mask.shape[1]:
            return query
        assert candidates.values is not None, "a second hop needs values: assemble the candidates with_values=True"
        answer = answer_without_null(logits, candidates.mask, candidates.values, NORMALISERS[self.config.normaliser])
        return moved(query, answer, self.hop, *self.value_projection)

    def candidate_logits(self, dense: Array, candidates: Candidates) -> Array:
        """Return the logits (B, N) of the candidates, -inf in empty slots: `attend` without null slot and weights."""
        return masked(namespace(dense).sum(self._parts(dense, candidates)[0], axis=-1), candidates.mask)

    def attend(self, dense: Array, candidates: Candidates) -> Attention:
        """Return the attention for dense evidence (B, N, DENSE) as returned by `dense`. Reads no key vectors."""
        parts, evidence = self._parts(dense, candidates)
        return Attention(*self.weighed(namespace(dense).sum(parts, axis=-1), candidates.mask), parts, evidence)

    def _parts(self, dense: Array, candidates: Candidates) -> tuple[Array, Array]:
        """Return the weighted parts of the logits, and the evidence that they weigh, both (B, N, E)."""
        xp = namespace(dense)
        trusted = dense if candidates.trust is None else dense * candidates.trust[:, None, None]
        evidence = xp.concat([trusted, candidates.words, self._memory(candidates)[..., None]], axis=-1)
        weights = xp.exp(self.log_inverse_temperature) * self.kind_weights(candidates.facts)
        if self.balances and candidates.mask.shape[1]:
            factor = self.word_factor(dense, candidates)[:, None]
            of_words = weights[:, DENSE : DENSE + len(LEXICAL)] * factor
            weights = xp.concat([weights[:, :DENSE], of_words, weights[:, DENSE + len(LEXICAL) :]], axis=1)
        return weights[:, None, :] * evidence, evidence

    def weighed(self, scores: Array, mask: Array) -> tuple[Array, Array]:
        """Return logits and weights (B, N+1), the null slot last, for the logits of the candidates (B, N).

        mask (B, N) bool is False in empty slots, whose logit becomes -inf and whose weight is 0.
        """
        xp = namespace(scores)
        scores = masked(scores, mask)
        logits = xp.concat([scores, null_logit(self.null, scores)[:, None]], axis=1)
        mask = xp.concat([mask, xp.ones((len(scores), 1), dtype=xp.bool)], axis=1)
        return logits, NORMALISERS[self.config.normaliser](logits, mask)

    def raised(self, attention: Attention, part: str, boost: Array, mask: Array) -> Attention:
        """Return the attention with a boost (B, N) added to a part; mask (B, N) is False in empty slots.

        Logits, null slot and weights follow from the raised parts, so the parts still add up to the logits.
        """
        missing = PARTS.index(part) + 1 - attention.parts.shape[-1]
        parts = np.concatenate([attention.parts, np.zeros((*boost.shape, max(0, missing)), np.float32)], axis=-1)
        parts[..., PARTS.index(part)] += boost
        logits, weights = self.weighed(attention.logits[:, :-1] + boost, mask)
        return Attention(logits, weights, parts, attention.evidence)

    def with_trees(self, attention: Attention, candidates: Candidates) -> Attention:
        """Return the attention with the sum of the trees as part `trees`; without trees as it is. Needs signals."""
        if not len(self.trees):
            return attention
        assert candidates.signals is not None, "trees need signals: retrieve the candidates with signals=True"
        mask = np.asarray(candidates.mask)
        boost = np.zeros(mask.shape, np.float32)
        boost[mask] = self.trees(self.tree_features(attention, candidates)[mask])
        return self.raised(attention, "trees", boost, candidates.mask)

    def with_priors(self, attention: Attention, candidates: Candidates) -> Attention:
        """Return the attention with the priors of the documents as part `prior`; without priors as it is."""
        if not self.priors:
            return attention
        assert candidates.id_order is not None, "priors need the ids of the documents"
        return self.raised(attention, "prior", self.priors(candidates.id_order, candidates.fields), candidates.mask)

    def tree_features(self, attention: Attention, candidates: Candidates) -> Floats:
        """Return the features (B, N, F) of the candidates that the trees read."""
        assert candidates.signals is not None
        logits = np.where(candidates.mask, attention.logits[:, :-1], 0.0)
        return tree_features(attention.evidence, logits, candidates.facts, candidates.signals, candidates.mask)

    def kind_weights(self, facts: Array) -> Array:
        """Return weights (B, E) of the parts for facts (B, len(FACTS)). A gate is a factor of 1/e to e, initially 1."""
        xp = namespace(facts)
        return self.beta * xp.exp(xp.tanh((2 * facts - 1) @ self.kind_gate))

    def word_factor(self, dense: Array, candidates: Candidates) -> Array:
        """Return the factor (B,) on the weights of the word parts, for dense evidence (B, N, DENSE), N > 0.

        A near passage without the words of the query speaks for meaning, covered words without a near passage speak for
        words (`word_balance.word_factor`).
        """
        passage, coverage = dense[..., PASSAGE], candidates.words[..., COVERAGE]
        return word_factor(self.balance, passage, coverage, candidates.facts[:, LENGTH], candidates.mask)

    def dense(self, query: Array, candidates: Candidates) -> Array:
        """Return the pooled score of each own kind (B, N, DENSE), averaged over heads by the weights of the head gate.

        A kind of which a document has no keys takes the score of its passages: a missing title is no evidence against
        the document.
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
        """Return the evidence of the other past queries (B, N)."""
        batch, documents = candidates.mask.shape
        past = candidates.memory_cosine, candidates.memory_weight, candidates.memory_slot
        memory = compressed(confirmed(*past, batch * documents, self.log_memory_sharpness), self.log_memory_gain)
        return namespace(memory).reshape(memory, (batch, documents))


def initial_parameters(config: HeadConfig) -> dict[str, Floats]:
    """Return the initial parameters of a head by name, with the prefix `score.` for those of its form.

    The same config gives the same bits.
    """
    values = {
        "beta": config.beta,
        "log_inverse_temperature": np.log(config.inverse_temperature),
        "log_sharpness": np.full(DENSE, np.log(config.sharpness)),
        "log_memory_gain": np.log(config.memory_gain),
        "log_memory_sharpness": np.log(config.memory_sharpness),
        "kind_gate": np.zeros((len(FACTS), len(EVIDENCE))),
        "head_gate": np.zeros((config.dim, config.heads)),
        "hop": 0.0,
        "context": 0.0,
        "null": config.null,
        "balance": config.balance,
    }
    score = FORMS[config.form].initial(config.dim, config.rank, config.heads, np.random.default_rng(config.seed))
    values |= no_trees(config.trees).parameters() if config.trees else {}
    values |= initial_projection(config.dim, config.value_rank, config.seed)
    own: dict[str, Any] = {name: np.asarray(value, np.float32) for name, value in values.items()}
    own |= no_priors(config.priors, *config.fields).parameters()
    return own | {f"{SCORE_PREFIX}{name}": value for name, value in score.items()}


def parameter_shapes(config: HeadConfig) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of the parameters of a head by name."""
    return _parameter_shapes(replace(config, seed=0))


@lru_cache(64)
def _parameter_shapes(config: HeadConfig) -> Mapping[str, tuple[int, ...]]:
    return {name: value.shape for name, value in initial_parameters(config).items()}


def without_keys(candidates: Candidates) -> Candidates:
    """Return the candidates without key vectors, to free their memory; `AttentionHead.attend` does not read them."""
    xp = namespace(candidates.keys)
    none = xp.empty((0,), dtype=candidates.pair_key.dtype)  # a slice would keep the whole array in memory
    keys = xp.empty((0, candidates.keys.shape[1]), dtype=candidates.keys.dtype)
    return replace(candidates, keys=keys, pair_query=none, pair_key=none, pair_slot=none, pair_kind=none)
