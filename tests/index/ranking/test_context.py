"""The context of a query: documents of its session draw it. Version 0 ignores a context bit for bit."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from torch import Tensor

from index.generation.generation import Generation, IndexedDocument
from index.learning.held_out import is_untrained
from index.ranking.attention import AttentionHead, HeadConfig, initial_parameters
from index.ranking.checkpoint import WEIGHTS, load_head
from index.ranking.context import drawn
from index.ranking.explanation import explain_keys, explain_parts
from index.ranking.retrieval import Mode, Query
from index.ranking.search import Ranking, search
from index.records import Floats
from index.storage.files import write_manifest
from tests.index.fixtures import generation_of, passages, random_vectors, remembered, unit
from tests.index.numpy_torch import By, each_library

DIM = 4
X = unit(1, 0, 0, 0)
SENSES = [unit(1, 0.6, 0, 0), unit(1, 0, 0.5, 0)]
"""Two documents that answer the query X in two senses; the second is nearer."""
SESSION = unit(0.1, 1, 0, 0)
"""A document of a session about the first sense."""
FAR = [unit(0.5, -0.5, -0.5, 0.1 * n) for n in range(6)]
CONFIG = HeadConfig(dim=DIM, rank=2)


def by_hand(query: Floats, context: Floats, amount: float, sharpness: float) -> list[float]:
    cosines = [math.fsum((query * one).astype(float).tolist()) for one in context]
    weights = [math.exp(sharpness * cosine) for cosine in cosines]
    pulls = [math.fsum(w * float(one[at]) for w, one in zip(weights, context, strict=True)) for at in range(len(query))]
    return [float(query[at]) + amount * pull / math.fsum(weights) for at, pull in enumerate(pulls)]


def drawing(amount: float, **config: object) -> AttentionHead:
    return AttentionHead(replace(CONFIG, **config)).changed(context=amount)  # type: ignore[arg-type]


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    """The documents 0 and 1 are the senses, 2 is the document of the session, the others are farther from the query."""
    vectors = [*SENSES, SESSION, *FAR]
    documents = [passages(row, f"word{row}", vector) for row, vector in enumerate(vectors)]
    return generation_of(tmp_path, documents, [remembered(1, 1, X)], dim=DIM)


def asked(
    generation: Generation, head: AttentionHead, *context: int, mode: Mode = Mode.HYBRID, count: int = 9
) -> Ranking:
    rows = np.asarray(context, np.int64) if context else None
    return search(generation, head, Query("word0 word1", X, mode, count=count, context=rows))


# --- The function ---


@each_library
def test_the_drawn_query_agrees_with_a_slow_loop(by: By) -> None:
    queries, context = random_vectors(3, DIM, 1), random_vectors(5, DIM, 2)
    found = by(drawn)(queries, context, np.float32(0.7), np.float32(8.0))
    for query, one in zip(queries, found, strict=True):
        assert one.tolist() == pytest.approx(by_hand(query, context, 0.7, 8.0), abs=1e-5)


def test_the_gradient_is_right() -> None:
    context = torch.tensor(random_vectors(5, DIM, 2), dtype=torch.float64)

    def moved(query: Tensor, amount: Tensor, sharpness: Tensor) -> Tensor:
        found: Tensor = drawn(query, context, amount, sharpness)
        return found

    query = torch.tensor(random_vectors(3, DIM, 1), dtype=torch.float64, requires_grad=True)
    scalars = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.7, 8.0)]
    assert torch.autograd.gradcheck(moved, (query, *scalars))


def test_the_nearest_document_of_the_context_draws_most() -> None:
    near, far = unit(1, 1, 0, 0), unit(-1, 0, 1, 0)
    context = np.stack([near, far])
    both = drawn(X[None], context, np.float32(1), np.float32(20))[0]
    assert both.tolist() == pytest.approx((X + near).tolist(), abs=1e-3)


# --- The search ---


def test_version_0_ignores_a_context_bit_for_bit(generation: Generation) -> None:
    head = AttentionHead(CONFIG)
    without, within = asked(generation, head), asked(generation, head, 2)
    assert (without.logits.tobytes(), without.weights.tobytes()) == (within.logits.tobytes(), within.weights.tobytes())
    assert without.doc_indices.tolist() == within.doc_indices.tolist()
    assert without.asked.tobytes() == within.asked.tobytes() == X.tobytes()


def test_a_search_without_context_keeps_every_bit(generation: Generation) -> None:
    plain, drawing_head = asked(generation, AttentionHead(CONFIG)), asked(generation, drawing(0.8))
    assert plain.logits.tobytes() == drawing_head.logits.tobytes()


def test_a_context_prefers_the_sense_of_the_session(generation: Generation) -> None:
    order = [
        asked(generation, drawing(0.8), *context, mode=Mode.DENSE).doc_indices.tolist()[0] for context in ((), (2,))
    ]
    assert order == [1, 0]


def test_the_context_moves_the_candidates_and_keeps_the_candidates_of_the_query(generation: Generation) -> None:
    before = set(asked(generation, drawing(0.0), 2, mode=Mode.DENSE, count=1).doc_indices.tolist())
    after = set(asked(generation, drawing(3.0), 2, mode=Mode.DENSE, count=1).doc_indices.tolist())
    assert before == {1}
    assert before < after


def test_words_and_memory_read_the_query_as_it_is(generation: Generation) -> None:
    def parts(head: AttentionHead, *context: int) -> dict[int, dict[str, float]]:
        ranking = asked(generation, head, *context)
        return {at: explain_parts(ranking, rank) for rank, at in enumerate(ranking.doc_indices.tolist())}

    before, after = parts(drawing(0.8)), parts(drawing(0.8), 2)
    assert any(one["memory"] for one in before.values())
    for at, one in before.items():
        assert {name: one[name] for name in ("words", "coverage", "memory")} == {
            name: after[at][name] for name in ("words", "coverage", "memory")
        }
    assert any(one["passage"] != after[at]["passage"] for at, one in before.items())


def test_a_search_by_words_has_no_context(generation: Generation) -> None:
    one, other = (asked(generation, drawing(0.8), *context, mode=Mode.WORDS) for context in ((), (2,)))
    assert one.logits.tobytes() == other.logits.tobytes()


@pytest.mark.parametrize("hop", [0.0, 0.5])
def test_an_explanation_sums_to_the_logit_and_has_the_cosines_of_the_drawn_query(
    generation: Generation, hop: float
) -> None:
    head = drawing(0.8).changed(hop=hop)
    query = Query("word0", X, count=9, context=np.asarray([2]))
    ranking = search(generation, head, query)
    for rank, doc_index in enumerate(ranking.doc_indices.tolist()):
        assert math.fsum(explain_parts(ranking, rank).values()) == pytest.approx(float(ranking.logits[rank]), abs=1e-4)
        key = explain_keys(generation, head, query, ranking, rank)[0]
        assert key.score == pytest.approx(float(ranking.asked @ generation.keys[doc_index]), abs=1e-5)


def test_a_document_without_a_value_draws_nothing(tmp_path: Path) -> None:
    documents = [passages(0, "word", X), IndexedDocument(1, "word", []), passages(2, "word", SESSION)]
    generation = generation_of(tmp_path, documents, dim=DIM)
    assert asked(generation, drawing(0.8), 1).asked.tolist() == X.tolist()
    assert asked(generation, drawing(0.8), 1, 2).asked.tolist() == asked(generation, drawing(0.8), 2).asked.tolist()


# --- Model files ---


def test_a_model_of_format_4_has_no_context(tmp_path: Path) -> None:
    values = initial_parameters(CONFIG)
    del values["context"]
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / WEIGHTS).write_bytes(save(values))
    write_manifest(tmp_path / "4", [WEIGHTS], {"format": 4, "config": asdict(CONFIG), "lineage": {}})
    head = load_head(tmp_path / "4")
    assert float(head.context) == 0
    assert is_untrained(head)
    assert not is_untrained(drawing(0.3))
