"""The benchmark of the gate: labels from a head's own distribution, and evidence that is computed once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gate import CONFIG, Records, Row, Simulation, summary
from benchmarks.label_draws import TOP, Truth, truths
from benchmarks.quality_tables import gate
from benchmarks.remembered_evidence import RememberedEvidence, remembered_evidence
from benchmarks.simulator import Searchers
from index.generation.generation import Generation
from index.learning.held_out import ranked
from index.ranking.attention import AttentionHead
from index.ranking.priors import Priors, document_hashes
from tests.index.learning_fixtures import INITIAL, asked, collection_of

HEAD = AttentionHead(INITIAL)
QUERIES = [replace(one, text=one.query_key) for one in asked(shifted=False, count=80)]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(Path(tmp_path_factory.mktemp("gate")))


@pytest.fixture(scope="module")
def drawn(collection: Generation) -> list[Truth]:
    return truths(RememberedEvidence(), collection, HEAD, QUERIES, 2.0)


def test_remembered_evidence_gives_the_rankings_of_a_search(collection: Generation) -> None:
    memory = RememberedEvidence()
    hashes = np.sort(document_hashes(collection.columns.id_order))
    priors = Priors(hashes, np.linspace(-2, 2, len(hashes), dtype=np.float32))
    for head in (HEAD, HEAD.changed(beta=HEAD.beta[::-1].copy()), HEAD.preferring(priors)):
        best = memory.best(collection, head, QUERIES[:20], TOP)
        for one, (rows, _) in zip(QUERIES[:20], best, strict=True):
            searched = ranked(collection, head, one)
            known = memory.ranked(collection, head, one)
            assert known.rows == searched.rows
            assert known.logits == pytest.approx(searched.logits, abs=1e-4)
            assert [str(row) for row in rows] == searched.rows[:TOP]


def test_no_ranking_is_better_than_that_of_the_head_that_draws(drawn: list[Truth]) -> None:
    random = np.random.default_rng(0)
    for truth in drawn[:20]:
        best = truth.expected_ndcg(truth.rows.tolist())
        assert truth.chance.sum() == pytest.approx(1)
        assert all(truth.expected_ndcg(random.permutation(truth.rows).tolist()) <= best for _ in range(20))


def test_labels_are_drawn_by_probability(drawn: list[Truth]) -> None:
    random = np.random.default_rng(0)
    first = [next(iter(drawn[0].judged(random).gains)) == drawn[0].rows[0] for _ in range(400)]
    assert np.mean(first) == pytest.approx(drawn[0].chance[0], abs=0.08)


def test_clicks_are_counted_as_a_log_counts_them(drawn: list[Truth]) -> None:
    found = drawn[0].clicked(Searchers(noise=0.5), 5, np.random.default_rng(0))
    assert sum(times for by in (found.shown or {}).values() for times in by.values()) == 50
    for row, gain in found.gains.items():
        assert sum((found.clicks or {})[row].values()) == gain
        assert row in (found.examined or ())
    assert drawn[0].clicked(Searchers(noise=0.0, best=0.0), 1, np.random.default_rng(0)).is_silent


def test_a_row_is_simulated_resumed_and_shown(collection: Generation, tmp_path: Path) -> None:
    row = Row("null", "judgments", 40, 2, first=30)
    records = Records(tmp_path / "gate.jsonl")
    with remembered_evidence() as memory, pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.gate.NIGHTS", 2)
        simulation = Simulation(collection, HEAD, QUERIES)
        log = simulation.records(memory, row, 0)
        records.add(row, 0, log)
    assert len(log) == 2
    assert CONFIG.min_queries <= 30
    again = Records(tmp_path / "gate.jsonl")
    assert again.has(row, 0)
    assert not again.has(row, 1)
    figures = summary(row, again.of(row))
    assert (figures["logs"], figures["runs"], figures["promoted"]) == (1, 2, 0)
    assert "| null, judgments, 30 to 40 queries | 1 logs, 2 runs |" in gate({"rows": [figures]})
