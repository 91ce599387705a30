"""A variant lacks only its own part, and stored measurements are not repeated."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import quality_tables
from benchmarks.ablations import (
    STATES,
    UNTRAINED,
    VARIANTS,
    WHOLE,
    Plan,
    Variant,
    measure_set,
    summary,
    system_of,
    without_kind,
    without_memory,
    without_sequence,
    without_words,
)
from benchmarks.measurements import Measurements
from benchmarks.workbench import Bench, asked_queries, loaded
from index.encoding.encoder import HashingEncoder
from index.generation.generation import Generation
from index.ranking.attention import EVIDENCE
from index.ranking.retrieval import Query
from index.ranking.search import search
from index.records import Floats, KeyKind
from tests.benchmarks.sets import animals

QUERY = "q-cat-sleeps"


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with loaded(animals(), HashingEncoder(), [QUERY]) as bench:
        yield bench


NOT_EXACT = {"corrected", "completed"}
"""Parts that are 0 for a query without spelling mistakes."""


def parts(bench: Bench, generation: Generation) -> dict[str, Floats]:
    """Return the evidence of every candidate of the test query, by its name."""
    asked = bench.asked[QUERY]
    ranking = search(generation, bench.champion, Query(asked.text, asked.vector))
    return dict(zip(EVIDENCE, ranking.parts.T, strict=True))


def test_the_whole_has_every_part_of_the_evidence(bench: Bench) -> None:
    whole = parts(bench, bench.generation)
    assert {name for name, part in whole.items() if not part.any()} == NOT_EXACT
    assert set(bench.generation.columns.key_kind.tolist()) >= {KeyKind.TITLE, KeyKind.PASSAGE}


def test_without_words_they_are_no_evidence_and_find_no_candidate(bench: Bench) -> None:
    generation = without_words(bench.generation)
    found = parts(bench, generation)
    assert {name for name, part in found.items() if part.any()} == {"title", "passage", "sentence", "memory"}
    asked = replace(Query(bench.asked[QUERY].text, bench.asked[QUERY].vector), count=3)
    counts = [
        len(search(one, bench.champion, asked).doc_indices) for one in (without_memory(generation), bench.generation)
    ]
    assert counts[0] == 3
    assert counts[1] > 3


def test_without_sequence_bm25_stays(bench: Bench) -> None:
    found = parts(bench, without_sequence(bench.generation))
    assert {name for name, part in found.items() if not part.any()} == {"coverage", "proximity", "phrase", *NOT_EXACT}
    assert np.array_equal(np.sort(found["words"]), np.sort(parts(bench, bench.generation)["words"]))


def test_without_memory_past_queries_add_no_evidence(bench: Bench) -> None:
    found = parts(bench, without_memory(bench.generation))
    assert {name for name, part in found.items() if not part.any()} == {"memory", *NOT_EXACT}


@pytest.mark.parametrize("kind", [KeyKind.TITLE, KeyKind.SENTENCE])
def test_without_a_kind_the_other_keys_of_documents_are_unchanged(bench: Bench, kind: KeyKind) -> None:
    whole, generation = bench.generation, without_kind(kind, bench.generation)
    assert kind in whole.columns.key_kind
    assert kind not in generation.columns.key_kind
    for place in range(len(whole.rows)):
        before, after = (slice(*one.columns.first_key[place : place + 2].tolist()) for one in (whole, generation))
        kept = whole.columns.key_kind[before] != kind
        assert np.array_equal(whole.keys[before][kept], generation.keys[after])
        assert np.array_equal(whole.columns.key_end[before][kept], generation.columns.key_end[after])
    assert search(generation, bench.champion, Query("", bench.asked[QUERY].vector)).doc_indices.size


def test_every_variant_except_the_whole_changes_something(bench: Bench) -> None:
    untouched = [one.name for one in VARIANTS if one.of(bench.generation) is bench.generation and not one.config]
    assert untouched == [WHOLE]
    assert len({one.name for one in VARIANTS}) == len(VARIANTS)


class NeverAsked(HashingEncoder):
    """An encoder that fails: a complete run must not use it."""

    def encode(self, texts: object, encoded: object = None) -> Floats:
        raise AssertionError("a set was loaded again")


def test_an_interrupted_run_resumes_and_differences_are_to_the_whole(tmp_path: Path) -> None:
    one, console = animals(), Console(quiet=True)
    untrained = UNTRAINED
    whole = Variant(WHOLE, config=untrained)
    variants = [whole, *(Variant(each.name, each.of, untrained) for each in VARIANTS[1:])]
    queries = asked_queries(one, 4)
    first, plan = Plan(variants[:1], [0], {}), Plan(variants, [0], {})
    measure_set(one, HashingEncoder(), queries, first, Measurements(tmp_path / "out.json"), console)
    with pytest.raises(AssertionError, match="loaded again"):
        measure_set(one, NeverAsked(), queries, plan, Measurements(tmp_path / "out.json"), console)
    measure_set(one, HashingEncoder(), queries, plan, Measurements(tmp_path / "out.json"), console)
    results = Measurements(tmp_path / "out.json")
    measure_set(one, NeverAsked(), queries, plan, results, console)
    found = summary(results, [one.name], [variant.name for variant in variants])
    for state in STATES:
        for variant in variants:
            system = system_of(variant.name, state)
            mean = found["sets"][one.name][system]["nDCG@10"]["mean"]
            gap = found["mean"][system]["nDCG@10"]["minus_whole"][0]
            all_of_it = found["sets"][one.name][system_of(WHOLE, state)]["nDCG@10"]["mean"]
            assert gap == pytest.approx(mean - all_of_it, abs=2e-4)
    shown = quality_tables.variants("served")(json.loads(json.dumps(found)))
    assert [line.split(" | ")[0].strip("| ") for line in shown.splitlines()[2:]] == [each.name for each in variants]
