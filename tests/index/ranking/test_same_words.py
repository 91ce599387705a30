"""Feedback on the very words of a query is obeyed by every head, whatever it learned about memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.generation.generation import Generation
from index.memory.query_key import anonymous_key, as_query_key
from index.ranking.attention import EVIDENCE, PARTS, AttentionHead, HeadConfig
from index.ranking.explanation import explain_keys
from index.ranking.retrieval import Query
from index.ranking.search import Ranking, search
from index.ranking.trees import no_trees
from index.records import KeyKind, MemoryKey
from index.words.reading_options import ReadingOptions
from tests.index.fixtures import ENCODER, generation_of, remembered, vector_of, written

TEXT, OTHER = "tea kettle", "kettle for tea"
DOCUMENTS = [written(row, f"a tea kettle of {row} litres " + "with a long lid " * row) for row in range(1, 9)]
UNTRAINED = HeadConfig(dim=ENCODER.dim)
MEMORY = EVIDENCE.index("memory")
"""A feature of the trees too: the evidence comes first."""


def inverting() -> AttentionHead:
    """Return a head that gives memory no weight, with a tree that lowers what memory raises."""
    head = AttentionHead(UNTRAINED).changed(beta=(*UNTRAINED.beta[:-1], 0.0), log_memory_gain=-9.0)
    tree = no_trees(1)
    tree.feature[:], tree.threshold[:] = MEMORY, 1e-6
    tree.value[:] = np.linspace(-5, 5, tree.value.shape[1])  # the last outcome: memory is at or below each threshold
    return head.grown(tree)


def of(directory: Path, *memory: MemoryKey) -> Generation:
    return generation_of(directory, DOCUMENTS, memory)


def told(row: int, weight: float, text: str = TEXT) -> MemoryKey:
    return remembered(row, row, text, weight, as_query_key(text))


def logits(generation: Generation, ranking: Ranking) -> dict[int, float]:
    return dict(zip(generation.rows[ranking.doc_indices].tolist(), ranking.logits.tolist(), strict=True))


def query(text: str = TEXT, **options: Any) -> Query:
    return Query(text, vector_of(text), **options)


@pytest.mark.parametrize("head", [AttentionHead(UNTRAINED), inverting()], ids=["untrained", "inverting"])
def test_a_confirmation_raises_its_document_alone_and_a_dislike_lowers_it(head: AttentionHead, tmp_path: Path) -> None:
    before = of(tmp_path / "before")
    after = of(tmp_path / "after", told(3, 0.5), told(5, -0.5))
    plain, obeyed = (logits(one, search(one, head, query())) for one in (before, after))
    assert obeyed[3] > plain[3] + 1
    assert obeyed[5] < plain[5] - 1
    assert {row: obeyed[row] for row in (1, 2, 4)} == pytest.approx({row: plain[row] for row in (1, 2, 4)}, abs=1e-4)


def test_a_head_may_give_other_words_no_weight(tmp_path: Path) -> None:
    head = AttentionHead(UNTRAINED).changed(beta=(*UNTRAINED.beta[:-1], 0.0))
    before, after = of(tmp_path / "before"), of(tmp_path / "after", told(3, 0.5, OTHER))
    plain, other = (logits(one, search(one, head, query())) for one in (before, after))
    assert other == pytest.approx(plain, abs=1e-5)


def test_an_untrained_head_adds_the_same_words_and_others_in_one_logarithm(tmp_path: Path) -> None:
    generation, plain = of(tmp_path / "after", told(3, 0.5), told(3, 0.25, OTHER)), of(tmp_path / "before")
    cosine = float(vector_of(TEXT) @ vector_of(OTHER))
    total = 0.5 + 0.25 * np.exp(UNTRAINED.memory_sharpness * (cosine - 1))
    memory = UNTRAINED.inverse_temperature * UNTRAINED.beta[MEMORY] * np.log1p(UNTRAINED.memory_gain * total)
    head = AttentionHead(UNTRAINED)
    gained = logits(generation, search(generation, head, query()))[3] - logits(plain, search(plain, head, query()))[3]
    assert gained == pytest.approx(memory, abs=1e-3)


def test_the_least_weight_follows_the_sum_of_the_other_weights(tmp_path: Path) -> None:
    generation = of(tmp_path, told(3, 0.5))
    halved = AttentionHead(UNTRAINED).changed(beta=(*(weight / 2 for weight in UNTRAINED.beta[:-1]), 0.0))
    of_head = [search(generation, head, query()) for head in (AttentionHead(UNTRAINED), halved)]
    parts = [one.parts[generation.rows[one.doc_indices] == 3][0, PARTS.index("memory")] for one in of_head]
    assert parts[1] == pytest.approx(parts[0] / 2, rel=1e-5)


def test_anonymous_feedback_is_obeyed_and_excluded_with_its_query(tmp_path: Path) -> None:
    name = anonymous_key(as_query_key(TEXT), "tenant")
    generation, head = of(tmp_path, replace(told(3, 0.5), query_key=name)), inverting()
    obeyed = logits(generation, search(generation, head, query("TEA  kettle")))
    alone = logits(generation, search(generation, head, query(excluded_query=as_query_key(TEXT))))
    assert obeyed[3] > alone[3] + 1


def test_the_same_words_have_the_nearness_of_one_in_an_explanation(tmp_path: Path) -> None:
    elsewhere = replace(told(3, 0.5), vector=vector_of(OTHER))  # of an encoder whose vectors differ a little
    generation, head = of(tmp_path, elsewhere), AttentionHead(UNTRAINED)
    ranking = search(generation, head, query())
    at = generation.rows[ranking.doc_indices].tolist().index(3)
    past = [one for one in explain_keys(generation, head, query(), ranking, at) if one.kind is KeyKind.QUERY]
    assert [one.share for one in past] == [1.0]
    assert ranking.parts[at].sum() == pytest.approx(ranking.logits[at], rel=1e-5)


@pytest.mark.parametrize("typed", [TEXT, f"{TEXT}?", "tea ketle"])
def test_a_held_out_query_sees_no_feedback_on_its_words_as_typed_or_as_corrected(typed: str, tmp_path: Path) -> None:
    memory = [replace(told(3, 0.5), exact=4.0), replace(told(5, 0.5, f"{TEXT}!"), exact=4.0)]
    before, after = of(tmp_path / "before"), of(tmp_path / "after", *memory)
    asked = query(typed, reading=ReadingOptions(typos=True), memory_vector=vector_of(TEXT))
    held_out = replace(asked, excluded_query=as_query_key(typed))
    head = AttentionHead(UNTRAINED)
    assert logits(after, search(after, head, held_out)) == logits(before, search(before, head, held_out))
    assert after.rows[search(after, head, asked).doc_indices[:2]].tolist() == [3, 5]
