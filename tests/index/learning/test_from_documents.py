"""Models that are made from the documents of a collection alone."""

from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import Check
from index.generation.generation import Generation
from index.learning import from_documents
from index.learning.fit import Fitted, Steps
from index.learning.from_documents import (
    MADE_WORDS,
    MAX_MEAN_COSINE,
    Balance,
    fit_from_documents,
    guard,
    guard_queries,
    mean_cosine,
)
from index.learning.held_out import is_untrained
from index.learning.made_queries import SourceText
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import head_bytes
from index.ranking.retrieval import Query
from index.ranking.search import search
from tests.index.fixtures import ENCODER, generation_of, passages, unit, written

TREES = ("oak", "pine", "ash", "elm", "yew", "fir", "beech", "birch", "larch", "maple")
PLACES = ("river", "hill", "shore", "garden", "road", "field")
TEXTS = [
    SourceText(row, f"{tree} {place}", f"the {tree} by the {place} is {row} years old and its leaves are green")
    for row, (tree, place) in enumerate((tree, place) for tree in TREES for place in PLACES)
]
HEAD = HeadConfig(ENCODER.dim)


def collection_of(directory: Path) -> Generation:
    return generation_of(directory, [written(one.row, one.text, one.title) for one in TEXTS])


def made(generation: Generation) -> Fitted:
    """Return the model of the documents of a generation."""
    return ended(fit_from_documents(generation, HEAD, TEXTS, ENCODER.encode_queries))


def ended(steps: Steps) -> Fitted:
    """Return the result of a fit."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            fitted: Fitted = end.value
            return fitted


# --- The mean cosine and the coefficients ---


def test_the_mean_cosine_is_the_mean_over_all_pairs_of_keys_of_living_documents(tmp_path: Path) -> None:
    vectors = [unit(1, 0), unit(0, 1), unit(1, 1)]
    generation = generation_of(tmp_path, [passages(row, "", one) for row, one in enumerate(vectors)], dim=2)
    expected = np.mean([[a @ b for a in vectors] for b in vectors])
    assert mean_cosine(generation) == pytest.approx(float(expected))


def test_a_collection_without_keys_has_the_mean_cosine_0(tmp_path: Path) -> None:
    assert mean_cosine(generation_of(tmp_path, [])) == 0


def test_the_coefficients_say_what_the_contrast_says() -> None:
    balance, mean = Balance(constant=-1.0, slope=4.0, length_slope=0.5), 0.2
    constant, by_passage, by_coverage, by_length = balance.coefficients(mean)
    for passage, coverage, length in ((0.7, 0.6, 0.5), (0.3, 1.0, 0.2), (0.9, 0.0, 1.0)):
        contrast = (passage - mean) / (1 - mean) - coverage - 0.5 * (length - 0.5)
        found = constant + by_passage * passage + by_coverage * coverage + by_length * length
        assert found == pytest.approx(-1.0 - 4.0 * contrast)


# --- The model ---


def test_the_model_is_an_untrained_head_with_a_balance(tmp_path: Path) -> None:
    generation = collection_of(tmp_path)
    fitted = made(generation)
    assert fitted.decision.promote, fitted.decision.reasons
    assert fitted.head.balances
    assert is_untrained(fitted.head), "few queries can be cross-fitted against it, as against version 0"
    assert fitted.head.config.balance == Balance().coefficients(mean_cosine(generation))
    assert fitted.report["documents"] == len(TEXTS)
    assert fitted.report["made_queries"] == len(TEXTS)


def test_the_same_documents_make_the_same_bits(tmp_path: Path) -> None:
    one, other = (made(collection_of(tmp_path / name)) for name in ("one", "other"))
    assert head_bytes(one.head) == head_bytes(other.head)
    assert one.report == other.report


# --- The made queries ---


def test_queries_are_made_of_titles_and_of_the_middle_of_texts() -> None:
    texts = [SourceText(1, "oak tree", "a"), SourceText(2, "oak tree", "one two three four five six seven eight nine")]
    first, second = guard_queries(texts, ENCODER.encode_queries)
    assert (first.row, first.text) == (1, "oak tree")
    assert (second.row, second.text) == (2, "one two three four five six seven eight")
    assert np.array_equal(second.vector, ENCODER.encode_queries([second.text])[0])


def test_a_text_without_spaces_gives_a_short_query_and_an_empty_document_gives_none() -> None:
    texts = [SourceText(1, "", "木" * 1000), SourceText(2, "", ""), SourceText(3, "", "  \n ")]
    (query,) = guard_queries(texts, ENCODER.encode_queries)
    assert query.row == 1
    assert len(query.text) <= 41 * MADE_WORDS


# --- The guard ---


def test_a_head_that_turns_the_rankings_over_does_not_pass(tmp_path: Path) -> None:
    generation = collection_of(tmp_path)
    queries = guard_queries(TEXTS, ENCODER.encode_queries)
    before = AttentionHead(HEAD)
    after = before.changed(beta=-np.asarray(HEAD.beta))
    checks = {check.name: check.passed for check in guard(generation, before, after, queries, 0.1)}
    assert checks == {"spread": True, "shared_documents": False, "own_documents": False}


def test_keys_that_are_all_alike_leave_the_weights_as_they_are(tmp_path: Path) -> None:
    generation = generation_of(tmp_path, [passages(row, "oak", unit(1, 0.01 * row)) for row in range(5)], dim=2)
    texts = [SourceText(row, "", "oak") for row in range(5)]
    steps = fit_from_documents(generation, HeadConfig(2), texts, lambda asked: np.tile(unit(1, 0), (len(asked), 1)))
    fitted = ended(steps)
    assert mean_cosine(generation) > MAX_MEAN_COSINE
    assert not fitted.decision.promote
    assert "the mean cosine of two keys is 1.00" in fitted.decision.reasons[0]
    assert fitted.head.config == HeadConfig(2)


def test_a_collection_that_gives_no_query_makes_no_champion(tmp_path: Path) -> None:
    steps = fit_from_documents(collection_of(tmp_path), HEAD, [], ENCODER.encode_queries)
    assert ended(steps).decision.reasons[-1] == "no query can be made from the documents"


def test_where_the_guard_finds_fault_the_null_slot_is_calibrated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_documents, "guard", lambda *_: [Check("own_documents", False, "too many are lost")])
    generation = collection_of(tmp_path)
    fitted = made(generation)
    assert (fitted.decision.promote, fitted.head.balances) == (True, False)
    assert fitted.report["null_slot"]["calibrated"]
    assert fitted.head.is_null_calibrated
    query = Query("oak river", ENCODER.encode_queries(["oak river"])[0])
    before, after = (search(generation, head, query) for head in (AttentionHead(HEAD), fitted.head))
    assert before.logits.tolist() == after.logits.tolist()
