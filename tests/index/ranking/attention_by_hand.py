"""The ranking function written out in plain Python, one loop per sum: the reference for `index.ranking.attention`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.ranking.attention import EVIDENCE, Candidates, HeadConfig
from index.records import FACTS, LEXICAL

TITLE, PASSAGE, SENTENCE = range(3)
Vector = Sequence[float]
PLAIN = (0.5,) * len(FACTS)
"""Facts with which all gates are neutral."""


@dataclass(frozen=True)
class ToyDocument:
    """A candidate: keys as (kind, vector), its share of BM25, and past queries as (cosine with this query, weight).

    matches are coverage, proximity and phrase; others are the shares of corrected and of completed words.
    """

    keys: Sequence[tuple[int, Vector]]
    words: float = 0.0
    memory: Sequence[tuple[float, float]] = ()
    matches: tuple[float, float, float] = (0.0, 0.0, 0.0)
    others: tuple[float, float] = (0.0, 0.0)


def only(**weights: float) -> tuple[float, ...]:
    """Return the weight of every part in the order of EVIDENCE, 0 for the others."""
    assert weights.keys() <= set(EVIDENCE)
    return tuple(weights.get(name, 0.0) for name in EVIDENCE)


def dot(a: Vector, b: Vector) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def soft_maximum_by_hand(scores: Sequence[float], sharpness: float) -> float:
    weights = [math.exp(sharpness * score) for score in scores]
    return sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)


def logit_by_hand(
    config: HeadConfig, query: Vector, document: ToyDocument, gates: Sequence[float] = (1.0,) * len(EVIDENCE)
) -> float:
    """T sum_part gate beta evidence: softmax-mean_i e.k_i per kind, words and matches, sign(m) log(1 + c |m|)."""
    of_kind: dict[int, float] = {}
    for kind in (TITLE, PASSAGE, SENTENCE):
        scores = [dot(query, key) for other, key in document.keys if other == kind]
        if scores:
            of_kind[kind] = soft_maximum_by_hand(scores, config.sharpness)
    passage = of_kind.get(PASSAGE, 0.0)
    remembered = sum(weight * math.exp(config.memory_sharpness * (cosine - 1)) for cosine, weight in document.memory)
    memory = math.copysign(math.log(1 + config.memory_gain * abs(remembered)), remembered)
    dense = [of_kind.get(kind, passage) for kind in (TITLE, PASSAGE, SENTENCE)]
    evidence = [*dense, document.words, *document.matches, *document.others, memory]
    weights = [beta * gate for beta, gate in zip(config.beta, gates, strict=True)]
    return config.inverse_temperature * dot(weights, evidence)


def null_logit_by_hand(config: HeadConfig, logits: Sequence[float]) -> float:
    """L + offset - slope L - peak p, L the logarithm of the summed exponentials and p the largest share of them."""
    offset, slope, peak = config.null
    total = sum(math.exp(logit) for logit in logits)
    return math.log(total) + offset - slope * math.log(total) - peak * math.exp(max(logits)) / total


def weights_by_hand(config: HeadConfig, logits: Sequence[float]) -> list[float]:
    """Softmax over the documents and the null slot, which is last."""
    exponentials = [math.exp(logit) for logit in [*logits, null_logit_by_hand(config, logits)]]
    return [one / sum(exponentials) for one in exponentials]


def flatten(
    queries: Sequence[Sequence[ToyDocument]],
    dim: int,
    dtype: Any = np.float32,
    facts: Sequence[Vector] | None = None,
) -> Candidates:
    """Return the candidates of several queries, and their facts, as the flat arrays that attention reads."""
    width = max(map(len, queries))
    keys: list[Vector] = []
    pairs: list[tuple[int, int, int, int]] = []
    words, mask = np.zeros((len(queries), width, len(LEXICAL)), dtype), np.zeros((len(queries), width), bool)
    memory: list[tuple[int, float, float]] = []
    for b, documents in enumerate(queries):
        for n, document in enumerate(documents):
            slot = b * width + n
            for kind, key in document.keys:
                pairs.append((b, len(keys), slot, kind))
                keys.append(key)
            words[b, n] = [document.words, *document.matches, *document.others]
            mask[b, n] = True
            memory += [(slot, cosine, weight) for cosine, weight in document.memory]
    pair = np.asarray(pairs, np.int64).reshape(-1, 4)
    past = np.asarray(memory, dtype).reshape(-1, 3)
    key_table = np.asarray(keys, dtype).reshape(-1, dim)
    known = np.asarray(facts or [PLAIN] * len(queries), dtype)
    values = np.zeros((*mask.shape, dim), dtype)
    for b, documents in enumerate(queries):
        for n, document in enumerate(documents):
            values[b, n] = value_by_hand(document, dim)
    remembered = (past[:, 0].astype(np.int64), past[:, 1], past[:, 2])
    return Candidates(key_table, *pair.T, words, known, mask, *remembered, values)


def value_by_hand(document: ToyDocument, dim: int) -> list[float]:
    """Return the unit mean of the passages of a document, zeros without a passage."""
    total = [sum(float(key[at]) for kind, key in document.keys if kind == PASSAGE) for at in range(dim)]
    length = math.sqrt(dot(total, total))
    return [one / length if length else 0.0 for one in total]


def random_unit(generator: np.random.Generator, dim: int) -> list[float]:
    vector = generator.normal(size=dim)
    return [float(x) for x in vector / np.linalg.norm(vector)]


def random_documents(seed: int, count: int, dim: int) -> list[ToyDocument]:
    """Return documents with up to three keys of each kind, some without a title, some with memory, some with words."""
    generator = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        kinds = [kind for kind in (TITLE, PASSAGE, SENTENCE) for _ in range(generator.integers(0, 4))]
        keys = [(kind, random_unit(generator, dim)) for kind in kinds]
        words = float(generator.random() * generator.integers(0, 2))
        times = generator.integers(0, 3)
        memory = [(float(generator.uniform(0.6, 1)), float(generator.uniform(-1, 2))) for _ in range(times)]
        matches, others = tuple(generator.random(3).tolist()), tuple(generator.random(2).tolist())
        documents.append(ToyDocument(keys, words, memory, matches, others))
    return documents
