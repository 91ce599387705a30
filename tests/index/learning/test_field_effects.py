"""Values of fields that people prefer raise documents without feedback too."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from index.generation.document_fields import FieldPairs, category_key, number_key, pairs_of
from index.generation.generation import Generation
from index.learning import field_effects
from index.learning.config import FitConfig
from index.learning.examples import Feedback
from index.learning.field_effects import (
    LEAST,
    LEAST_DOCUMENTS,
    NO_COLUMNS,
    CentredColumns,
    DocumentColumns,
    FieldColumns,
    Label,
    described,
    key_of,
    labels_of,
)
from index.learning.fit import Fitted, fit
from index.learning.prior_fit import Residuals, candidate_logits, fit_priors
from index.memory.click_worth import ASSUMED_CURVE
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Query
from index.ranking.search import search
from index.records import MetadataValue
from tests.index.fixtures import ENCODER, generation_of, vector_of, written
from tests.index.learning.test_prior_selection import as_clicks, learned
from tests.index.learning_fixtures import finished
from tests.index.ranking.attention_by_hand import only

KINDS, MAKERS, COUNT = 16, 5, 112
NEW_KINDS = frozenset({14, 15})
"""Kinds without a query in the feedback."""
CONFIG = FitConfig(recipes=("initial",), hops=(), trees=(), cross_validation_queries=1000, error_share=1.0)
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim, beta=only(words=1.0), inverse_temperature=3.0))
"""A head that puts the documents of a kind before all others, all alike."""
Fields = Callable[[int, int], Mapping[str, MetadataValue]]


def collection(directory: Path, fields: Fields) -> Generation:
    """Return, for each kind, a document of each maker with these metadata."""
    documents = [
        replace(written(kind * MAKERS + maker, f"kind{kind} thing"), id=f"{kind}-{maker}", metadata=fields(kind, maker))
        for kind in range(KINDS)
        for maker in range(MAKERS)
    ]
    return generation_of(directory, documents)


def by_maker(kind: int, maker: int) -> Mapping[str, MetadataValue]:
    """Return the metadata of a document whose maker is the fourth for every second kind, and the first for others."""
    name = f"maker{(maker + kind) % MAKERS}"
    return {"maker": name, "sold": 10.0 * ((maker + kind) % MAKERS), "shelf": f"shelf{kind % 3}", "isNew": kind % 2 > 0}


def feedback(favourite: str | None = "maker3") -> list[Feedback]:
    """Return queries for a kind, each in other words. People choose a maker's document, or one by chance."""
    random = np.random.default_rng(0)
    asked = []
    for at in range(COUNT):
        kind = at % (KINDS - len(NEW_KINDS))
        makers = [maker for maker in range(MAKERS) if by_maker(kind, maker)["maker"] == favourite]
        maker = makers[0] if makers else int(random.integers(MAKERS))
        text = f"kind{kind} ask{at}"
        asked.append(Feedback(text, text, vector_of(text), {kind * MAKERS + maker: 3.0}))
    return asked


def labels(generation: Generation, *names: str, fields: Fields = by_maker) -> dict[int, Label]:
    documents = (fields(kind, maker) for kind in range(KINDS) for maker in range(MAKERS))
    return labels_of(generation, documents, names)


def fitted(generation: Generation, asked: list[Feedback], *names: str, fields: Fields = by_maker) -> Fitted:
    return finished(fit(generation, asked, HEAD, CONFIG, labels=labels(generation, *names, fields=fields)))[0]


def makers_of(generation: Generation, head: AttentionHead, kind: int) -> list[str]:
    """Return the makers of the documents of a kind, in the order in which a search finds them."""
    text = f"kind{kind}"
    ranking = search(generation, head, Query(text, vector_of(text), count=20))
    rows = generation.rows[ranking.doc_indices].tolist()
    return [str(by_maker(*divmod(row, MAKERS))["maker"]) for row in rows if row // MAKERS == kind]


@pytest.mark.parametrize("names", [("maker",), ("sold",), ("maker", "sold", "shelf", "isNew")])
def test_documents_that_nobody_has_chosen_rank_by_their_fields(tmp_path: Path, names: tuple[str, ...]) -> None:
    generation = collection(tmp_path, by_maker)
    found = fitted(generation, feedback(), *names)
    assert found.report["priors"]["chosen"] in CONFIG.priors
    assert found.report["head"]["field_priors"] == sum(found.head.priors.fields.shape) > 0
    assert found.decision.promote, found.decision.reasons
    for kind in NEW_KINDS:
        assert makers_of(generation, HEAD, kind)[0] != "maker3"
        assert makers_of(generation, found.head, kind)[0] == "maker3"


def test_only_the_fields_that_are_named_have_an_effect(tmp_path: Path) -> None:
    generation = collection(tmp_path, by_maker)
    found = fitted(generation, feedback(), "shelf")
    assert {one["field"] for one in found.report["priors"]["fields"]} <= {"shelf"}
    without = fitted(generation, feedback())
    assert not without.head.priors.fields
    assert without.report["priors"]["fields"] == []


def test_there_are_no_effects_where_chance_decides(tmp_path: Path) -> None:
    found = fitted(collection(tmp_path, by_maker), feedback(None), "maker", "sold", "shelf", "isNew")
    assert found.report["priors"]["chosen"] is None
    assert not found.head.priors.fields
    assert not found.decision.promote


def test_the_report_names_what_people_prefer(tmp_path: Path) -> None:
    found = fitted(collection(tmp_path, by_maker), feedback(), "maker", "sold").report["priors"]["fields"]
    of_makers = {one["value"]: one["effect"] for one in found if one["field"] == "maker"}
    assert max(of_makers, key=lambda name: of_makers[name]) == "maker3"
    assert of_makers["maker3"] > 0
    (sold,) = [one for one in found if one["field"] == "sold"]
    assert max(sold["knots"], key=lambda point: point[1])[0] == 30.0
    assert [abs(one["effect"]) for one in found] == sorted((abs(one["effect"]) for one in found), reverse=True)


def test_a_field_that_all_documents_share_changes_no_order(tmp_path: Path) -> None:
    def fields(kind: int, maker: int) -> Mapping[str, MetadataValue]:
        return {"language": "en", "edition": 1}

    found = fitted(collection(tmp_path, fields), feedback(), "language", "edition", fields=fields)
    assert all(abs(one["effect"]) < 0.05 for one in found.report["priors"]["fields"])


def with_metadata(directory: Path, given: Sequence[Mapping[str, MetadataValue]]) -> Generation:
    return generation_of(
        directory, [replace(written(row, "thing"), metadata=metadata) for row, metadata in enumerate(given)]
    )


def test_labels_are_of_named_fields_and_of_values_that_enough_documents_have(tmp_path: Path) -> None:
    documents: list[Mapping[str, MetadataValue]] = [
        {"brand": "oak", "price": 1.5, "tags": ["a", "a", "b"], "sale": True, "sku": f"s{at}", "note": "x" * 65}
        for at in range(LEAST_DOCUMENTS)
    ]
    documents += [{"brand": "oak", "price": "on request"}, {"brand": "elm", "rare": 7}]
    generation = with_metadata(tmp_path, documents)
    named = ("brand", "price", "tags", "sale", "sku", "note", "rare", "absent")
    found = list(labels_of(generation, documents, named).values())
    assert found[:2] == [("price", None), ("brand", "oak")]
    assert set(found[2:]) == {("sale", True), ("tags", "a"), ("tags", "b")}
    assert labels_of(generation, documents, ("sale",)) == {category_key("sale", True): ("sale", True)}


def test_columns_are_those_of_categories_and_of_steps(tmp_path: Path) -> None:
    given: list[Mapping[str, MetadataValue]] = [{"brand": "oak", "price": float(price)} for price in (10, 20, 40)]
    columns = FieldColumns.of(
        with_metadata(tmp_path, given),
        {category_key("brand", "oak"): ("brand", "oak"), number_key("price"): ("price", None)},
    )
    assert len(columns) == 4
    asked: list[Mapping[str, MetadataValue]] = [{"brand": "oak"}, {"price": 30}, {"price": 90, "brand": "elm"}, {}]
    found = columns.matrix(pairs_for(asked), len(asked)).toarray()
    assert found.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0.5], [0, 1, 1, 1], [0, 0, 0, 0]]
    coefficients = np.asarray([0.5, 1.0, 1.0, -3.0])
    means = np.asarray([0.0, 0.0, 0.25, 0.0])
    priors = columns.priors(coefficients, means)
    assert priors.of_owners(pairs_for(asked), len(asked)) == pytest.approx(found @ coefficients - 0.25)
    small = columns.priors(np.asarray([LEAST / 2, 0, 0, 0]), np.ones(4))
    assert (len(small.categories), float(small.offset)) == (0, 0.0)
    names = {key_of(label): label for label in (("brand", "oak"), ("price", None))}
    assert described(priors, names)[0] == {
        "field": "price",
        "knots": [[10.0, 1.0], [20.0, 2.0], [40.0, -1.0]],
        "effect": 3.0,
    }


def pairs_for(documents: list[Mapping[str, MetadataValue]]) -> FieldPairs:
    found = [pairs_of(one) for one in documents]
    owners = np.repeat(np.arange(len(found)), [len(keys) for keys, _ in found])
    keys, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
    return FieldPairs(owners, keys, numbers)


def test_centred_columns_have_the_gradient_of_their_effects(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    documents = random.integers(4, 9, size=12)
    could_be_chosen = np.asarray([True] * 9 + [False] * 3)
    known = np.unique(documents)[:-1]
    brand, price = np.asarray([3], np.uint64), np.asarray([5], np.uint64)
    of_fields = FieldColumns(brand, price, (np.asarray([1.0, 2.0, 4.0]),))
    has_price = random.random((len(known), 1)) < 0.6
    given = np.hstack([random.random((len(known), 1)), has_price, has_price * random.random((len(known), 2))])
    columns = CentredColumns(DocumentColumns(of_fields, known, csr_matrix(given)), documents, could_be_chosen)
    coefficients, pull = random.random(4), random.random(12)
    effects = columns @ coefficients
    is_fitted = could_be_chosen & np.isin(documents, known)
    assert 2 < is_fitted.sum() < 9
    assert effects[~is_fitted].tolist() == [0.0] * int((~is_fitted).sum())
    assert effects[is_fitted].mean() == pytest.approx(0, abs=1e-6)
    have = is_fitted & np.isin(documents, known[has_price[:, 0]])
    assert 0 < have.sum() < is_fitted.sum()
    steps = columns @ np.asarray([0.0, 0.0, 1.0, 2.0])
    assert steps[have].mean() == pytest.approx(0, abs=1e-6)
    assert not steps[is_fitted & ~have].any()
    step = 1e-6 * np.eye(4)
    numeric = [(pull @ (columns @ (coefficients + one)) - pull @ effects) / 1e-6 for one in step]
    assert columns.gradient(pull) == pytest.approx(numeric, abs=1e-6)


def test_documents_beyond_the_bound_are_left_out_of_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_effects, "BLOCK", 2)
    monkeypatch.setattr(field_effects, "MOST_ENTRIES", 5)
    generation = with_metadata(tmp_path, [{"brand": "oak"}] * 9)
    columns = FieldColumns.of(generation, {category_key("brand", "oak"): ("brand", "oak")})
    found = DocumentColumns.of(generation, columns, np.arange(9))
    assert found.documents.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.matrix.toarray().tolist() == [[1.0]] * 6
    assert len(DocumentColumns.of(generation, NO_COLUMNS.columns, np.arange(9)).documents) == 0


@pytest.mark.parametrize("order", ["as they came", "older documents changed since"])
def test_dates_of_documents_that_could_not_be_chosen_are_not_lowered(tmp_path: Path, order: str) -> None:
    """A changed document gets a new row, so the order of rows does not tell which document is new."""
    old, new = (range(KINDS * (MAKERS - 1)), range(1000, 1000 + KINDS))
    moved = 2000 if order != "as they came" else 0
    documents = [
        replace(
            written(row + moved, f"kind{row % KINDS} thing"), id=f"old {row}", metadata={"date": 10 * (row // KINDS)}
        )
        for row in old
    ]
    documents += [
        replace(written(row, f"kind{row % KINDS} thing"), id=f"new {row}", metadata={"date": 100}) for row in new
    ]
    generation = generation_of(tmp_path, sorted(documents, key=lambda one: one.row))
    asked = []
    for at in range(COUNT):
        text, row = f"kind{at % KINDS} ask{at}", at % KINDS + KINDS * (MAKERS - 2) + moved
        asked.append(Feedback(text, text, vector_of(text), {row: 3.0}))
    date = {number_key("date"): ("date", None)}
    found = finished(fit(generation, asked, HEAD, CONFIG, labels=date, newer=frozenset(new)))[0]
    assert 100 in found.head.priors.fields.knots
    assert height(found, 100) >= height(found, 30) > height(found, 0)
    if not moved:
        without = finished(fit(generation, asked, HEAD, CONFIG, labels=date))[0]
        assert height(without, 100) < height(without, 30), "without `newer` they are"


def height(found: Fitted, date: float) -> float:
    """Return what a date adds to the prior of a document."""
    return float(found.head.priors.fields.of_pairs(np.asarray([number_key("date")], np.uint64), np.asarray([date]))[0])


@pytest.mark.parametrize("cheap", [True, False])
def test_a_document_whose_number_is_not_known_is_like_the_mean(tmp_path: Path, cheap: bool) -> None:
    def fields(kind: int, maker: int) -> Mapping[str, MetadataValue]:
        return {"price": float(MAKERS - 1 - maker if cheap else maker)}

    generation = collection(tmp_path, fields)
    last = [next(iter(one.gains)) // MAKERS * MAKERS + MAKERS - 1 for one in feedback()]
    asked = [replace(one, gains={row: 3.0}) for one, row in zip(feedback(), last, strict=True)]
    priors = fitted(generation, asked, "price", fields=fields).head.priors
    given: list[Mapping[str, MetadataValue]] = [{"price": 0.0}, {"price": 4.0}, {}, {"price": "on request"}]
    lowest, highest, unknown, said = priors.with_fields(np.zeros(4, np.float32), pairs_for(given)).tolist()
    assert (lowest > highest) == cheap
    assert unknown == said
    assert abs(unknown) < 0.01 < abs(lowest - highest) / 4


def test_an_error_of_the_examination_curve_is_no_effect_of_the_field_that_ordered_the_lists(tmp_path: Path) -> None:
    def fields(kind: int, maker: int) -> Mapping[str, MetadataValue]:
        return {"sold": float(MAKERS - maker)}

    generation = collection(tmp_path, fields)
    asked = []
    for one in feedback():
        first = next(iter(one.gains)) // MAKERS * MAKERS
        clicks = {first + at: {at + 1: round(1000 * ASSUMED_CURVE[at] ** 0.5)} for at in range(MAKERS)}
        gains = {row: float(sum(of.values())) for row, of in clicks.items()}
        shown = {first + at: {at + 1: 1000} for at in range(MAKERS)}
        asked.append(replace(one, gains=gains, shown=shown, clicks=clicks))
    examples = learned(generation, asked)
    of_fields = FieldColumns.of(generation, labels(generation, "sold", fields=fields))
    columns = DocumentColumns.of(generation, of_fields, np.arange(KINDS * MAKERS))
    residuals = Residuals.of(generation, examples, candidate_logits(generation, HEAD, examples), columns)
    assert np.ptp(fit_priors(residuals, 0.3).fields.heights) < 0.05
    blind = replace(residuals, propensities=np.zeros_like(residuals.propensities))
    assert np.ptp(fit_priors(blind, 0.3).fields.heights) > 0.3, "without the coefficient they are"


def test_clicks_teach_effects_too(tmp_path: Path) -> None:
    generation = collection(tmp_path, by_maker)
    found = fitted(generation, [as_clicks(one) for one in feedback()], "maker")
    effects = {one["value"]: one["effect"] for one in found.report["priors"]["fields"]}
    assert max(effects, key=lambda name: effects[name]) == "maker3"
    for kind in NEW_KINDS:
        assert makers_of(generation, found.head, kind)[0] == "maker3"
