"""Priors of fields count in the logits of all documents with a value, also of documents without feedback."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.errors import DamagedFile
from index.generation.columns import id_order
from index.generation.document_fields import NO_PAIRS, FieldPairs, category_key, number_key, pairs_of
from index.generation.generation import Generation
from index.ranking.attention import PARTS, AttentionHead, HeadConfig
from index.ranking.checkpoint import WEIGHTS, head_files, head_of_files
from index.ranking.explanation import explain_parts
from index.ranking.field_priors import KNOTS, FieldPriors, knots_of, no_field_priors, ramps
from index.ranking.priors import LARGEST, Priors, bounded, document_hashes, no_priors
from index.ranking.retrieval import Mode, Query, assemble, retrieve
from index.ranking.search import search
from index.records import MetadataValue
from index.storage.files import MANIFEST, manifest_of
from tests.index.fixtures import ENCODER, generation_of, vector_of, written

METADATA: list[Mapping[str, MetadataValue]] = [
    {"brand": "oak", "sold": 10},
    {"brand": "oak", "sold": 35.0},
    {"brand": "elm", "sold": 1000},
    {"sold": -5},
    {},
]
DOCUMENTS = [replace(written(row, f"warm thing {row}"), id=f"d{row}", metadata=own) for row, own in enumerate(METADATA)]
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim))
KNOTS_OF_SOLD = np.asarray([[0.0, 20.0, 40.0, 60.0, 80.0, 90.0, 100.0]])
FIELDS = FieldPriors(
    np.asarray([category_key("brand", "oak")], np.uint64),
    np.asarray([0.25], np.float32),
    np.asarray([number_key("sold")], np.uint64),
    KNOTS_OF_SOLD,
    np.asarray([[-0.5, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0]], np.float32),
    np.asarray(0.125, np.float32),
)
EXPECTED = [0.125 + 0.25 - 0.25, 0.125 + 0.25 + 0.375, 0.125 + 1.0, 0.125 - 0.5, 0.125]
"""Offset, brand and sold of each document."""
PRIORS = Priors(no_priors().documents, no_priors().values, FIELDS)


def asked(text: str = "warm thing", mode: Mode = Mode.HYBRID) -> Query:
    return Query(text, vector_of(text), mode=mode, count=10)


def parts_of(generation: Generation, head: AttentionHead, query: Query) -> dict[int, dict[str, float]]:
    """Return row -> the parts of its logit, with the logit."""
    ranking = search(generation, head, query)
    rows = generation.rows[ranking.doc_indices].tolist()
    return {row: explain_parts(ranking, at) | {"logit": float(ranking.logits[at])} for at, row in enumerate(rows)}


@pytest.mark.parametrize("text", ["warm thing", "warm thing 3", "thing"])
def test_a_value_raises_its_documents_for_every_query(tmp_path: Path, text: str) -> None:
    generation = generation_of(tmp_path, DOCUMENTS)
    plain = parts_of(generation, HEAD, asked(text))
    raised = parts_of(generation, HEAD.preferring(PRIORS), asked(text))
    assert [raised[row]["prior"] for row in range(5)] == pytest.approx(bounded(np.asarray(EXPECTED)))
    for row, parts in raised.items():
        assert parts["logit"] == pytest.approx(plain[row]["logit"] + parts["prior"], abs=1e-4)
        assert sum(parts[name] for name in PARTS) == pytest.approx(parts["logit"], abs=1e-4)


@pytest.mark.parametrize("mode", [Mode.DENSE, Mode.WORDS])
def test_fields_count_in_the_mode_hybrid_alone(tmp_path: Path, mode: Mode) -> None:
    generation = generation_of(tmp_path, DOCUMENTS)
    assert all(
        "prior" not in parts for parts in parts_of(generation, HEAD.preferring(PRIORS), asked(mode=mode)).values()
    )


def test_the_prior_of_a_document_and_its_fields_add_up_within_bounds() -> None:
    hashes = document_hashes(id_order(["d0", "d2"]))
    order = np.argsort(hashes)
    priors = Priors(hashes[order], np.asarray([-1.0, 1.5], np.float32)[order], FIELDS)
    found = [pairs_of(one) for one in METADATA]
    owners = np.repeat(np.arange(5), [len(keys) for keys, _ in found])
    pairs = FieldPairs(owners, *(np.concatenate(each) for each in zip(*found, strict=True)))
    own = [-1.0, 0, 1.5, 0, 0]
    wanted = bounded(np.asarray([one + other for one, other in zip(own, EXPECTED, strict=True)]))
    assert priors(id_order([f"d{row}" for row in range(5)]), pairs) == pytest.approx(wanted)
    assert priors(id_order([]), NO_PAIRS).shape == (0,)


def test_the_bound_keeps_the_order_and_changes_small_priors_little() -> None:
    sums = np.asarray([-1e30, -7, -2, -1, -0.3, 0, 0.3, 1, 2, 6, 7, 1e30], np.float32)
    found = bounded(sums)
    assert (np.diff(found) > 0)[:-1].all()
    assert np.abs(found).max() == LARGEST
    assert found[4:7] == pytest.approx(sums[4:7], rel=1e-3)
    assert found[7] == pytest.approx(0.985, abs=1e-3)


def test_a_new_value_of_a_document_counts_at_once(tmp_path: Path) -> None:
    documents = [replace(DOCUMENTS[0], row=7, metadata={"brand": "elm", "sold": 60}), *DOCUMENTS[1:]]
    generation = generation_of(tmp_path, sorted(documents, key=lambda one: one.row))
    assert parts_of(generation, HEAD.preferring(PRIORS), asked())[7]["prior"] == pytest.approx(
        float(bounded(np.float32(0.625)))
    )


def test_the_head_of_training_and_the_search_agree(tmp_path: Path) -> None:
    generation, head = generation_of(tmp_path, DOCUMENTS), HEAD.preferring(PRIORS)
    query = asked("warm coat")
    sets = [retrieve(generation, query, head.search_vectors(query.vector[None])[0])] * 2
    attention = head(np.stack([query.vector] * 2), assemble(generation, sets, with_fields=True))
    ranking = search(generation, head, query)
    order = np.argsort(ranking.doc_indices)
    for row in attention.logits[:, :-1]:
        assert row == pytest.approx(ranking.logits[order], abs=1e-5)


def test_a_head_with_priors_of_fields_is_saved_and_loaded(tmp_path: Path) -> None:
    generation, head = generation_of(tmp_path, DOCUMENTS), HEAD.preferring(PRIORS)
    loaded = head_of_files(head_files(head, {}))
    assert loaded.config.fields == (1, 1)
    before, after = (search(generation, one, asked()) for one in (head, loaded))
    assert before.logits.tobytes() == after.logits.tobytes()
    assert loaded.preferring(no_priors()).config == HEAD.config


def test_files_without_one_of_the_arrays_are_damaged() -> None:
    from safetensors.numpy import load, save

    files = head_files(HEAD.preferring(PRIORS), {})
    tensors = load(files[WEIGHTS])
    for name in ("priors.knots", "priors.categories", "priors.offset"):
        weights = {WEIGHTS: save({one: value for one, value in tensors.items() if one != name})}
        facts = {"format": 8, "config": HEAD.config.__dict__ | {"fields": [1, 1]}, "lineage": {}}
        with pytest.raises(DamagedFile):
            head_of_files(weights | {MANIFEST: manifest_of(weights, facts)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priors.knots", KNOTS_OF_SOLD[:, ::-1].copy()),
        ("priors.knots", KNOTS_OF_SOLD * np.nan),
        ("priors.offset", np.asarray(np.inf, np.float32)),
    ],
)
def test_priors_out_of_order_or_not_finite_are_damaged(name: str, value: np.ndarray) -> None:
    from safetensors.numpy import load, save

    files = head_files(HEAD.preferring(PRIORS), {})
    weights = {WEIGHTS: save(load(files[WEIGHTS]) | {name: value})}
    facts = {"format": 8, "config": HEAD.config.__dict__ | {"fields": [1, 1]}, "lineage": {}}
    with pytest.raises(DamagedFile):
        head_of_files(weights | {MANIFEST: manifest_of(weights, facts)})


def test_a_model_of_format_7_has_no_priors_of_fields() -> None:
    files = head_files(HEAD, {})
    config = {name: value for name, value in HEAD.config.__dict__.items() if name != "fields"}
    weights = {WEIGHTS: files[WEIGHTS]}
    loaded = head_of_files(weights | {MANIFEST: manifest_of(weights, {"format": 7, "config": config, "lineage": {}})})
    assert loaded.config == HEAD.config
    assert not loaded.priors


def test_unknown_keys_add_nothing_and_numbers_beyond_the_knots_add_the_last_height() -> None:
    keys = np.asarray(
        [number_key("sold"), number_key("sold"), number_key("year"), category_key("brand", "elm")], np.uint64
    )
    assert FIELDS.of_pairs(keys, np.asarray([1e12, -1e12, 1.0, np.nan])).tolist() == [1.0, -0.5, 0.0, 0.0]
    assert no_field_priors().of_pairs(keys, np.zeros(4)).tolist() == [0.0] * 4


def test_knots_are_distinct_quantiles_and_ramps_interpolate_between_them() -> None:
    assert knots_of(np.asarray([3.0, 3.0, 5.0])).tolist() == [3.0, 5.0]
    many = knots_of(np.arange(1001.0))
    assert many.tolist() == [20.0, 200.0, 400.0, 600.0, 800.0, 930.0, 990.0]
    assert len(many) == KNOTS
    steps = np.asarray([0.5, 1.0, -2.0])
    found = ramps(np.asarray([0.0, 10.0, 15.0, 20.0, 30.0, 99.0]), np.asarray([10.0, 20.0, 40.0])) @ steps
    assert found.tolist() == [0.5, 0.5, 1.0, 1.5, 0.5, -0.5]
    assert ramps(np.asarray([1.0, 2.0]), np.asarray([7.0])).tolist() == [[1.0], [1.0]]
